#include "experiments/common/config/options.h"

#include "engine/error.h"

namespace bochner {

constexpr int kMostParts = 65536;  // per batch

void RunOptions::fields(Fields& f) {
  f("task", task, "the task to learn; A,B,... runs each of them").one_of(tasks);
  f("preset", preset, "the protocol whose settings to start from; --task and --attention choose its files");
  f("config", config, "an INI file of settings, such as the config.ini of a run").command_line_only();
  f("attention", attention, "attention mechanism; A,B,... runs with each and compares them").one_of(attentions);
  f("steps", steps, "training steps").at_least(0);
  f("seconds", seconds,
    "end training after so many seconds of steps, evaluations not counted, if that comes before --steps; schedules of "
    "a certain length then follow the time; 0: no limit")
      .at_least(0);
  f("batch", batch, "examples in each step").at_least(1);
  f("accumulate", accumulate,
    "split each batch into so many parts, processed one after the other, to save memory. The gradient is equal up to "
    "rounding, except for what each part draws or counts on its own: dropout, landmarks, hashes, features that are "
    "drawn at each pass, and the running statistics of a generator network")
      .at_least(1);
  f("shards", shards,
    "split each batch into so many parts, which the processes share and whose gradients are summed in one fixed order, "
    "so that results do not depend on the number of processes; 0: 8 if there are several processes, otherwise the "
    "batch is taken whole. With --resume, a run that took its batches whole goes on in shards")
      .at_least(0)
      .at_most(kMostParts);
  f("sequence-shards", sequence_shards,
    "split every sequence into so many slices, which the processes share, where sequences are classified by a kernel "
    "attention or softmax; results do not depend on the number of processes, and --shards is 1 unless it is given")
      .at_least(1)
      .at_most(kMostParts);
  f.then([this](const Fields&) {
    if (int64_t{shards} * sequence_shards > kMostParts)
      fail("--shards={} --sequence-shards={}: more than {} parts of a batch", shards, sequence_shards, kMostParts);
  });
  f("reduce", reduce,
    "how processes add gradients: exact gives the same bits for any number of processes, fast uses the sum of MPI or "
    "NCCL")
      .one_of({"exact", "fast"});
  f("processes", processes,
    "how processes find each other: by MPI, not at all, or auto: by MPI if mpirun or srun started this one; nccl: by "
    "MPI, and gradients then go from card to card by NVIDIA's NCCL")
      .one_of({"auto", "none", "mpi", "nccl"})
      .command_line_only();
  f("process-timeout", process_timeout, "seconds that a process waits for the others before it gives up")
      .above(0)
      .of_invocation();
  f("seed", seed, "seed of all random numbers");
  f("seeds", seeds, "number of runs, with the seeds seed, seed + 1, ...; reports their mean and deviation")
      .at_least(1)
      .at_most(10000);
  f("threads", threads, "CPU threads; 0: one per core; results do not depend on it")
      .at_least(0)
      .at_most(1024)
      .free_on_resume();
  f("device", device, "cpu, cuda or cuda:N; several processes of a machine take one card each where it is cuda");
  f("precision", precision,
    "bf16: store activations in bf16 and round the factors of matrix products to it; tf32, on a card: round the "
    "factors of matrix products to TF32")
      .one_of({"f32", "tf32", "bf16"});
  f("debug-sync", debug_sync, "on a card, wait after every op, so that an error names its op").of_invocation();
  f("graphs", graphs, "on a card, record steps as CUDA graphs and replay them where shapes recur; results are the same")
      .free_on_resume();
  f("checkpoint-every", checkpoint_every,
    "minutes between extra checkpoints, besides those at evaluations; 0: none; results do not depend on it")
      .at_least(0)
      .free_on_resume();
  f("init", init, "start from the weights of this run folder or safetensors file, for parameters of the same name");
  f("data", data, "folder of the data sets").free_on_resume();
  f("out", out, "folder of the run, or of several runs; default runs/EXPERIMENT/NAME").of_invocation();
  f("resume", resume,
    "continue the run in the run folder, bit for bit; with --steps=N up to N steps in all; =auto: continue if there is "
    "one, otherwise start")
      .one_of({"true", "false", "auto"})
      .command_line_only();
  f("evaluate", evaluate, "measure the best model of this run folder again, on validation and test; trains nothing")
      .command_line_only();
  f("predict", predict,
    "write what the best model of this run folder answers to each test example, into the folder or to --out; trains "
    "nothing")
      .command_line_only();
  f("quiet", quiet, "print warnings and errors only").of_invocation();
  f("log-level", log_level, "how much to print").one_of({"error", "warning", "info", "debug"}).of_invocation();
  f("dump-config", dump_config, "print all settings as an INI file, and stop").command_line_only();
  f("trace", trace, "write a Chrome trace to this file, and print the share of time per op").of_invocation();
  f("bench", bench, "time training steps and print the least time they could take; trains nothing").of_invocation();
  f("help", help, "print this, and stop").command_line_only();
  f("version", version, "print version, compiler, BLAS and CUDA, and stop").command_line_only();
}

void RunOptions::length_fields(Fields& f) {
  f("group-by-length", group_by_length,
    "make batches of texts of similar length, by sorting the examples of every 50 batches by length and shuffling the "
    "batches. There is less padding, so steps are faster, but batches are no longer random samples");
  f("pad-to-multiple-of", pad_to_multiple_of,
    "round the length of each batch up to a multiple of this, but not above the longest that is allowed. A card "
    "records "
    "a step for each length, so few lengths are faster there than many; try 64")
      .at_least(1);
}

}  // namespace bochner
