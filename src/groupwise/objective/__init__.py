"""The mathematics of group-relative policy optimisation, as functions of tensors.

Nothing here knows a model, a tokenizer, a reward or a trainer, and nothing but torch is imported. A batch is
ragged, not padded: all sampled tokens lie on one axis N, episode after episode, and `lengths_E` says how many each one
has, so that there is no padding mask to get wrong.

Axis suffixes:

    P  problems (groups) of a step
    G  samples of one problem
    E  episodes: one for each sample, with one turn or several; what groups and reductions count
    B  sequences that the model reads: an episode has one, or several where its context was rewritten
    N  sampled tokens of all episodes, end to end; context between them is not on it
    V  vocabulary
    K  reward components

Four log-probability streams, each the natural log of the probability of the sampled token:

    new      the policy being trained, with gradient
    old      the trained policy when the batch was sampled, as the trainer computes it
    sampler  the same weights, as the engine that sampled computed them
    ref      the reference that a KL term pulls towards

The policy ratio is new/old, the engine weight is old/sampler (detached), the KL is new/ref.

One optimizer step: `advantages` turns rewards into advantages; `reductions` fixes one weight per token from the totals
of the whole step; `loss` puts `ratios`, `surrogates`, `corrections`, `masks`, `kl` and `entropy` together as one plain
weighted sum, so that no split into micro-batches or ranks can change the gradient; `metric` says how each measurement
is merged over such a split.
"""
