"""The rewards of a completion's form: format, length, language, repetition. All are quick and need no worker."""

from collections.abc import Mapping, Sequence

from groupwise.grading.components.format import Decoder, score_format
from groupwise.grading.components.language import score_language
from groupwise.grading.components.length import score_group_relative, score_linear, score_overlong
from groupwise.grading.components.repetition import score_repetition
from groupwise.grading.records import Response, Score
from groupwise.grading.reward_options import RewardOptions
from groupwise.grading.totals import FORMAT, LANGUAGE, LENGTH, OVERLONG, REPETITION, is_used


def score_forms(
    responses_G: Sequence[Response],
    tokens_G: Sequence[int],
    correctness_G: Sequence[float],
    options: RewardOptions,
    max_new_tokens: int,
    tag_ids: Mapping[str, int],
    decoder: Decoder,
) -> dict[str, list[Score]]:
    """Scores over G by component, of those that the options use; the format is judged in any case.

    tokens_G: lengths with the token that stopped each. correctness_G: the reward for being right, NaN where unknown.
    """
    columns = {FORMAT: [score_format(response, options.format, tag_ids, decoder) for response in responses_G]}
    if is_used(options, OVERLONG):
        buffer = options.overlong.buffer_tokens
        columns[OVERLONG] = [score_overlong(tokens, max_new_tokens, buffer) for tokens in tokens_G]
    if is_used(options, LENGTH):
        if options.length.form == "group_relative":
            columns[LENGTH] = score_group_relative(tokens_G, correctness_G)
        else:
            free = options.length.free_tokens
            columns[LENGTH] = [score_linear(tokens, max_new_tokens, free) for tokens in tokens_G]
    if is_used(options, LANGUAGE):
        columns[LANGUAGE] = [score_language(response, options.language.script) for response in responses_G]
    if is_used(options, REPETITION):
        ngram_tokens, free_fraction = options.repetition.ngram_tokens, options.repetition.free_fraction
        columns[REPETITION] = [score_repetition(response.ids, ngram_tokens, free_fraction) for response in responses_G]
    return columns
