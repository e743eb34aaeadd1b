"""A check before a model is used: its answers can end, and its prompts begin as they should."""

import json

from groupwise.completion import Prompt
from groupwise.config.data import SamplingOptions
from groupwise.model.load import Policy
from groupwise.model.prompt import PromptRenderer
from groupwise.model.stop_strings import StopStrings


def check_stops(renderer: PromptRenderer, first: Prompt, policy: Policy, sampling: SamplingOptions) -> list[str]:
    """Warnings where answers would hardly end, or the prompts begin oddly. first: a prompt of the run.

    Raises:
        DataError: for a text of `sampling.stop` that no tokens can produce.
    """
    if sampling.stop:
        StopStrings.of(policy.tokenizer, tuple(sampling.stop))
    remarks, tokenizer = [], policy.tokenizer
    end = renderer.end_of_answer()
    ids = tokenizer.encode(end, add_special_tokens=False) if end else []
    if (
        ids
        and ids[0] not in policy.stop_ids
        and not any(text.strip() and text.strip() in end for text in sampling.stop)
    ):
        token = tokenizer.convert_ids_to_tokens(ids[0])
        named = len(ids) == 1 or token in tokenizer.get_added_vocab()
        remedy = f"sampling.stop_ids={json.dumps([token])}" if named else f"sampling.stop={json.dumps([end])}"
        known = ", ".join(tokenizer.convert_ids_to_tokens(list(policy.stop_ids)))
        remarks.append(
            f"warning: the chat template ends an answer with {token if named else repr(end)}, and only {known} ends "
            f"one here, so that answers may run on to sampling.max_new_tokens; set '{remedy}'"
        )
    bos = tokenizer.bos_token_id
    if bos is not None and first.ids[:2].tolist() == [bos, bos]:
        remarks.append(
            f"warning: prompts begin with {tokenizer.bos_token} twice: the tokenizer or the template puts one there, "
            "and the text has another; take it out of the text"
        )
    return remarks
