# groupwise on a CPU. Not tried: no image was built from this file, and none of its lines was run in a container. The tests
# run on Debian 12 with Python 3.11 and the pins of constraints.txt, which is what this installs.
#
#   docker build -t groupwise .
#   docker run --rm -v "$PWD:/work" groupwise train demo
#
# Programs that a model writes (code rewards) run in bubblewrap, which needs user namespaces. Docker's default seccomp
# profile and AppArmor forbid these inside of a container; ask what works with
#
#   docker run --rm --security-opt seccomp=unconfined --security-opt apparmor=unconfined groupwise sandbox check
#
# Everything else needs no such option. For a GPU, start from an image with CUDA and leave out the index of CPU wheels.
FROM python:3.11-slim-bookworm

# The linear algebra of torch needs OpenMP; the rest comes with the wheels.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 \
 && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 groupwise
WORKDIR /opt/groupwise
COPY --chown=groupwise:groupwise . .
RUN python -m pip install --no-cache-dir --constraint constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu '.[gguf,parquet,sandbox,math-verify]'

USER groupwise
WORKDIR /work
ENV OMP_WAIT_POLICY=PASSIVE
ENTRYPOINT ["groupwise"]
CMD ["--help"]
