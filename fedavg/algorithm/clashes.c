#include "clashes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fedavg/rules/combine/adapters.h"
#include "fedavg/rules/combine/combine_rules.h"
#include "fedavg/rules/combine/mix_rules.h"
#include "fedavg/rules/local/local_rules.h"
#include "fedavg/rules/local/optimizer_rules.h"
#include "fedavg/rules/local/personal_rules.h"
#include "fedavg/rules/privacy/release_rules.h"
#include "fedavg/rules/send/send_rules.h"
#include "fedavg/rules/server/server_rules.h"
#include "fedavg/rules/world/schedule.h"
#include "fedavg/rules/world/stale_rules.h"
#include "fedavg/rules/world/walk.h"

enum { CLASH_OTHERS = 24 };

// In this file alone traits go by their short names, so that a row of the table is a sentence on one line.
#define SHORT_NAME(trait, of) trait = TRAIT_##trait,
typedef enum ShortTrait { ALGORITHM_TRAITS(SHORT_NAME) OPTION_TRAITS(SHORT_NAME) } ShortTrait;

// One trait, the traits that it excludes, and the reason. If a run has several such pairs, the first is reported.
typedef struct ClashRow {
    ShortTrait one, others[CLASH_OTHERS];
    const char *why;
} ClashRow;

#define NEEDS_CLIP "its noise is a multiple of what updates are clipped to; add send clip"

// clang-format off
static const ClashRow clashes[] = {
    // Client state, and the optimizer of clients.
    {SUMS, {LOCAL_NAME_DIFFERS}, "it is the half of the local rule of its name"},
    {KEEPS, {SERVER_NAME_DIFFERS}, "it needs the server rule of its name"},
    {KEEPS, {COMBINES}, "its clients are averaged as they are"},
    {KEEPS, {PERSONAL}, "a client keeps one of the two"},
    {CONTRASTS, {PERSONAL}, "a client keeps one of the two"},
    {MOREAU, {ADDS, NOT_SGD, NOVA}, "its two steps are its own"},
    {MIXED, {NOT_SGD}, "a client's own model makes plain SGD's steps; take ditto"},
    {CLUSTERS, {MASKS, MIXES, COMBINES, RELEASES, MOVES}, "each of its models is the mean of its own clients"},
    {QFFL, {MOVES}, "its step has a length of its own"},
    {ASKS, {NOT_SGD}, "what a client keeps is an average of gradients, which only SGD's way tells"},
    {NOVA, {NOT_SGD}, "the length of a training is known for SGD alone"},
    // A mixed update combines several clients: it is made from updates side by side, and mixed updates have equal
    // weights.
    {MIXES, {SHARES_FIRST}, "that does not look at updates side by side"},
    {MIXES, {WEIGHS}, "mixed updates count alike; add weights=uniform to it"},
    {MIXES, {BY_TRAINING}, "mixed updates have no loss of their own"},
    {MIXES, {KEEPS}, "its clients are averaged as they are"},
    {MIXES, {MASKS}, "the server may see the sum alone"},
    {MIXES, {RELEASES}, "a client would be part of several updates"},
    {MIXES, {VOTES}, "it counts the signs of clients"},
    {MIXES, {BUFFERS}, "its clients have to begin from one model"},
    // Encoding. A client has one kind of state, and the changes of that state are not encoded.
    {MASKS, {SEES_CLIENTS}, "the server may see the sum alone"},
    {NOISES, {UNCLIPPED}, NEEDS_CLIP},
    {DECODES, {KEEPS_EXACTLY}, "the server has to know the updates exactly"},
    {FEEDS_BACK, {KEEPS, CONTRASTS}, "a client keeps one of the two; take feedback=no"},
    {CLIPS, {REPLICAS}, "what a replica gives is exact"},
    {MASKS, {SCATTERS}, "it takes weights that lie side by side"},
    {FEEDS_BACK, {PERSONAL}, "a client keeps one of the two; take feedback=no"},
    {FEEDS_BACK, {NOISES}, "what feeds back is not clipped, and nothing is private; take feedback=no"},
    {VOTES, {NOT_SIGNS}, "it counts signs; add send sign"},
    {VOTES, {COUNTS_UNEVENLY}, "votes count alike; add combine mean uniform"},
    // A client's own noise hides its data from the server only if the client tells nothing else.
    {NOISES, {KEEPS}, "what its clients keep would be handed in without noise"},
    {NOISES, {ADAPTS_CLIP}, "whether an update was longer than the norm would be told without noise; take send clip"},
    {NOISES, {BY_TRAINING, BY_LOSSES}, "losses of clients would be told without noise; add combine mean uniform"},
    {NOISES, {CHOOSES_BY_LOSS}, "losses of clients would be told without noise; take uniform or by-size"},
    {NOISES, {TOLD}, "how many samples a client has would be told without noise; add combine mean uniform"},
    {TOLD, {NO_TRAINER}, "a trainer tells the samples of its clients; name it, or write combine mean samples"},
    {TOLD, {NOVA}, "the steps of its trainers weigh its clients; take weights=samples"},
    {TOLD, {BUFFERS}, "it weighs clients before they train; write combine mean uniform"},
    {TOLD, {ADAPTERS}, "it weighs products of factors before the sum; take weights=samples"},
    {ADAPTS, {MOVES, SCALES}, "its products are exact where the server takes the mean as it is; leave server out"},
    {ADAPTS, {MIXES, CLUSTERS}, "its products are those of clients; take fedavg, or how=mean"},
    {NOISES, {CLUSTERS}, "which model fits a client best would be told without noise; take fedavg"},
    // Noise hides one client only if every client has the same weight, is clipped, and hands in nothing besides.
    {RELEASES, {UNCLIPPED}, NEEDS_CLIP},
    {RELEASES, {COUNTS_UNEVENLY}, "a client that counts more than others would show; add combine mean uniform"},
    {RELEASES, {KEEPS}, "what its clients keep would be released, too"},
    {RELEASES, {DECODES}, "what is decoded may be longer than what was clipped"},
    {TREE, {ADAPTS_CLIP}, "its noise belongs to one norm for all rounds"},
    // Updates that begin from several versions meet in one sum, whose shares are known beforehand.
    {BUFFERS, {KEEPS_FOR_ROUNDS, CONTRASTS}, "what its clients keep belongs to rounds of one model"},
    {BUFFERS, {PERSONAL}, "what stays with a client belongs to a round"},
    {BUFFERS, {ADAPTS_CLIP}, "its norm follows from whole rounds; take send clip"},
    {BUFFERS, {MASKS}, "masks vanish in the sum of those that began together"},
    {BUFFERS, {FEEDS_BACK}, "what is fed back belongs to a round; take feedback=no"},
    {BUFFERS, {ONE_MODEL}, "its clients have to begin from one model"},
    {BUFFERS, {TRAINS_STATE}, "its clients begin from a model apart"},
    {BUFFERS, {RELEASES}, "its epsilon is that of rounds that are drawn"},
    {STALE, {NOT_BUFFERS}, "nothing is stale there; add schedule buffered"},
    {STALE, {REPLICAS}, "what a replica gives is never stale"},
    {REPLICAS, {GATHERS}, "a replica gives as it arrives, and goes on at once; write K=1 and steps= alone"},
    {COMPENSATES, {STEPS_ON_SEVERAL}, "it turns one step at a time; add K=1, without mixes"},
    {COMPENSATES, {SEVERAL_STEPS}, "what it turns is one gradient; add steps=1"},
    {COMPENSATES, {NOT_SGD}, "only SGD's steps are gradients"},
    // Replicas of which a fragment travels.
    {STREAMS, {KEEPS, CONTRASTS, PERSONAL}, "with fragments= a client keeps a replica; leave one of the two out"},
    {STREAMS, {FEEDS_BACK}, "what is fed back is of another fragment; take feedback=no"},
    {STREAMS, {CLIPS, NOISES, RELEASES}, "privacy is that of whole models; leave fragments= out"},
    {STREAMS, {MASKS}, "masks are of whole models; leave fragments= out"},
    {STREAMS, {TRUSTS, ADAPTERS, TRAINS_STATE}, "it sees a fragment of the model; leave fragments= out"},
    {STREAMS, {NOVA, QFFL}, "its step is that of whole models; leave fragments= out"},
    // Schedules in which workers write one model.
    {WRITES, {NESTEROV},
     "nesterov=yes is for clients that train on their own; or take schedule rounds steps=1 with server momentum "
     "nesterov=yes and --lr 1"},
    {LOCKSTEP, {NOT_SGD},
     "its workers share one velocity, SGD's; for Adam on the mean gradient take schedule rounds steps=1 with server "
     "adam and --lr 1 (tools/from.md)"},
    {WILD, {NOT_SGD}, "its workers write SGD's steps into one model"},
    {WRITES, {ADDS, PERSONAL, CLIPS, NOISES, CODES, MIXES, COMBINES, RELEASES, MOVES},
     "no clients come together there"},
    // Optimizer states of clients, and settings of training.
    {STATE_KEPT, {KEEPS_FOR_ROUNDS, CONTRASTS, PERSONAL}, "a client keeps one of the two"},
    {STATE_KEPT, {NOVA}, "the length of a training is known only where the optimizer starts anew"},
    {STATE_KEPT, {BUFFERS_UPDATES}, "what a client keeps belongs to rounds of one model"},
    {STATE_AVERAGED, {NOT_SGD}, "momenta alone are averaged"},
    {STATE_AVERAGED, {STREAMS}, "momenta travel with whole models; take keep"},
    {STATE_AVERAGED, {KEEPS}, "one of the two can be summed beside the updates"},
    {STATE_AVERAGED, {PERSONAL}, "what stays with a client is no mean"},
    {STATE_AVERAGED, {MIXES, COMBINES}, "momenta are averaged as a plain mean"},
    {STATE_AVERAGED, {NOISES, RELEASES}, "momenta would tell what noise hides"},
    {STATE_AVERAGED, {BUFFERS}, "momenta do not wait with the updates"},
    {MOREAU, {DECAYS, CLIPS_GRADIENTS}, "its two steps have none; leave the option out"},
    {MIXED, {CLIPS_GRADIENTS}, "the steps of a client's own model are not clipped; leave one of the two out"},
    {FREEZES, {DECAYS_SHARED}, "frozen tensors would decay under --algorithm hogwild or ssgd; leave one out"},
    // Worlds in which a rule does not work.
    {GAUSSIAN, {SAMPLES_UNEVENLY, OVER_SELECTS},
     "its epsilon is known only for cohorts of --sampling uniform or poisson that are all kept; change it"},
    {TREE, {SAMPLES_OUT_OF_TURN, OVER_SELECTS},
     "its epsilon is known only for cohorts of --sampling cyclic without shuffle=yes that are all kept; change it"},
    {LEARNS, {SOME_CLIENTS, SAMPLES_SOME, DROPS_OUT, FAILS, DROPS_STRAGGLERS, ENDS_ROUNDS},
     "all its clients take part in every round; leave the option out"},
    {VARIES, {TIMES_UPLOADS, OVER_SELECTS, ENDS_ROUNDS, TIME_FILE},
     "how much a client sends is known only when it has trained; take send top-k"},
    {BUFFERS, {SAMPLES_AT_ONCE},
     "it begins one client after the other; take uniform, or by-size without replacement=yes"},
    {BUFFERS, {FAILS}, "its clients begin one after the other; take schedule rounds"},
    {FAILS, {CHOOSES_BY_LOSS}, "a client that is down tells no loss; take uniform or by-size"},
    {BUFFERS, {STRAGGLES}, "its slow clients are late; take --client-time"},
    {BUFFERS, {OVER_SELECTS}, "it takes the first K of M; lower its K"},
    {BUFFERS, {ENDS_ROUNDS}, "its rounds end with the Kth update; take its max-staleness"},
    {BUFFERS, {DRIFTS_CLASSES}, "it weighs clients before the first round; take labels or pixels"},
    {REPLICAS_ARRIVE, {SOME_CLIENTS}, "with schedule buffered its clients all train; leave the option out"},
    {REPLICAS_ARRIVE, {DROPS_OUT, WITHOUT}, "with schedule buffered its clients all arrive; leave the option out"},
    {REPLICAS_ARRIVE, {REPLAYS}, "with schedule buffered it needs the simulated clock; leave the option out"},
    {WEIGHS_CLIENTS, {COUNTS_OTHERWISE},
     "its clients do not count by their samples (weights=uniform, or by a rule of its own); add combine mean samples"},
    {GROWS, {RELEASES, ADAPTS_CLIP}, "its noise is that of cohorts of one size; leave one of the two out"},
    {GROWS, {BUFFERS}, "its clients begin one after the other; leave one of the two out"},
    {GROWS, {LEARNS}, "all its clients take part in every round; leave one of the two out"},
    {GROWS, {SAMPLES_IN_TURN}, "groups of unlike sizes would leave clients out; take uniform"},
    // On the real clock the share of an update must be known when it arrives, before the updates that will join it.
    {REAL_CLOCK, {SEVERAL_NODES}, "workers of one machine share it; start it without mpirun"},
    {REAL_CLOCK, {CLIPS, NOISES, CODES}, "updates arrive whole; leave send out"},
    {REAL_CLOCK, {COMBINES}, "it takes the mean as updates come; leave combine out"},
    {REAL_CLOCK, {COUNTS_LATER},
     "what an update counts must not depend on those that come later; add combine mean uniform"},
    {REAL_CLOCK, {SCHEDULES_LR, WARMS_UP},
     "no round has a learning rate of its own; leave --lr-schedule and --warm-up out"},
    {REAL_CLOCK, {BOUNDS}, "nobody waits; leave bound out"},
    {REAL_CLOCK, {PUBLISHES}, "workers begin with their next client at once; leave dispatch=publish out"},
    {REAL_CLOCK, {ONCE}, "who comes twice counts twice; leave twice=no out"},
    {REAL_CLOCK, {LAGS}, "as many clients train as there are workers; give K instead of lag"},
    {REAL_CLOCK, {REPLICAS}, "replicas meet the centre on the simulated clock; leave it out"},
    {REAL_CLOCK, {DROPS_OUT}, "clients drop out of the simulated world; leave --drop-out out"},
    {WITHOUT, {FAILS}, "without them rounds take other times, in which other clients fail; leave one of the two out"},
    {WITHOUT, {REAL_CLOCK, REPLAYS}, "the clock says who arrives; take --clock simulated"},
    {NEW_CLIENTS, {REPLAYS}, "the file says who trains; take --clock simulated"},
    {NEW_CLIENTS, {DRIFTS_CLASSES}, "clients would come to hold their samples; take labels or pixels"},
    {NEW_CLIENTS, {TRUSTS}, "its server trains on samples of all clients; take another rule"},
    {WITHOUT, {DRIFTS_CLASSES}, "other clients would come to hold their samples; take labels or pixels"},
    {WITHOUT, {TRUSTS}, "its server trains on samples of all clients; take another rule"},
    {REAL_CLOCK, {TIMES, TIMES_UPLOADS, TIMES_DOWNLOADS},
     "durations are those of the machine; leave --client-time and bandwidths out"},
    // Steps that hide each sample: all that leaves a client has to follow from them, and all of them count.
    {HIDES_SAMPLES, {LOOKS}, "its clients also hand on a gradient that is not private; take fedprox or scaffold"},
    {HIDES_SAMPLES, {CONTRASTS}, "its term needs the samples of a batch together; take fedprox or scaffold"},
    {HIDES_SAMPLES, {SECOND}, "the second model makes steps that do not count; take fedper"},
    {HIDES_SAMPLES, {ALTERNATES}, "the steps of the head do not count; take fedper"},
    {HIDES_SAMPLES, {BY_TRAINING, BY_LOSSES}, "losses of clients are not private; add combine mean, or take fedavg"},
    {HIDES_SAMPLES, {TRUSTS}, "the server's own steps would have noise, too; take another combine rule"},
    {HIDES_SAMPLES, {CLUSTERS}, "the choice of a model by its loss is not private; take fedavg"},
    {HIDES_SAMPLES, {CHOOSES_BY_LOSS}, "losses of clients are not private; take uniform or by-size"},
    {HIDES_SAMPLES, {DRIFTS_CLASSES}, "the steps on a sample would count for several clients; take drift labels or pixels"},
    {HIDES_SAMPLES, {WEIGHS_CLASSES}, "the gradient of a sample alone has no weight; leave one out"},
    {HIDES_SAMPLES, {TUNES}, "the steps of fine-tuning do not count; leave one out"},
    {HIDES_SAMPLES, {REAL_CLOCK}, "it takes the simulated clock; leave --clock out"},
    {HIDES_SAMPLES, {WHOLE_BATCHES}, "a batchnorm mixes the samples of a batch; normalise with groupnorm"},
    // A trainer makes whole turns of SGD-like steps; the engine takes no part in them.
    {TRAINER, {WRITES}, "its workers take every step in the engine; take fedavg, or local-sgd for frequent averages"},
    {TRAINER, {LOOKS}, "a gradient before the first step is the engine's; take fedprox or scaffold"},
    {TRAINER, {CONTRASTS}, "its term is the engine's; add the term in the program, take fedprox, or leave --trainer out"},
    {AGGREGATOR, {STREAMS}, "it sees whole models; leave fragments= out"},
    {HIDES_SAMPLES, {STREAMS}, "its steps are those of whole models; leave fragments= out"},
    {TRAINER, {REPLICAS}, "replicas exchange after the first step, in the engine; take fedavg"},
    {TRAINER, {MOREAU, MIXED}, "its two models step in turn, in the engine; take ditto"},
    {TRAINER, {CLUSTERS}, "its models begin apart, from values that the engine draws; take ditto"},
    {TRAINER, {NORMS}, "the engine knows no layers of its net; name them: personal tensors names=norm*"},
    {TRAINER, {NOT_SGD, NESTEROV}, "the optimizer is the trainer's; leave it out"},
    {TRAINER, {STATE_AVERAGED}, "the states of the trainer's optimizer may have no mean; take keep"},
    {TRAINER, {REAL_CLOCK}, "it has the simulated clock; leave --clock out"},
    {TRAINER, {ON_GPU}, "computes where its program says, as with serve(device=\"cuda\")"},
    // An aggregator sees all updates of a round side by side, as robust rules do.
    {AGGREGATOR, {COMBINES}, "both say how updates become one; leave one of the two out"},
    {AGGREGATOR, {CLUSTERS}, "its program gets the updates of one model; take fedavg"},
    {AGGREGATOR, {MIXES}, "its program gets the updates of clients, not mixtures; leave mix out"},
    {AGGREGATOR, {MASKS}, "the server may see the sum alone; leave secagg out"},
    {AGGREGATOR, {WRITES}, "no clients come together there; take fedavg"},
    {AGGREGATOR, {BUFFERS}, "its program gets a round's updates, whose clients begin from one model; take fedavg"},
    {AGGREGATOR, {KEEPS}, "what its clients keep is averaged beside the updates; take fedavg or fedprox"},
    {AGGREGATOR, {VOTES}, "it counts the signs of clients; take another server rule"},
    {AGGREGATOR, {STATE_AVERAGED}, "momenta are averaged as a plain mean; take fresh or keep"},
    {AGGREGATOR, {SEVERAL_NODES}, "its program reads all updates on one machine; start it without mpirun"},
    // A crafted update replaces an unclipped, unencoded one, among all updates of a round.
    {ATTACKS_UPDATES, {KEEPS}, "its clients keep what follows from their update; take label-flip"},
    {SCALES_BY_SHARE, {STALE_SHARES},
     "with --clock real the share of an update depends on how late it comes, which no attacker knows; write a number, "
     "such as --attack \"scaled factor=10\""},
    {CRAFTS, {CLUSTERS}, "attackers would have to know who trains which model; take sign-flip"},
    {BACKDOOR, {CLUSTERS}, "its success is measured on one model; take label-flip"},
    {CRAFTS, {BUFFERS}, "attackers have to see the updates of a round"},
    {CRAFTS, {SHARES_FIRST}, "its shares follow from what clients train; take the mean or a robust rule"},
    {CRAFTS, {CLIPS}, "what attackers agree on is not clipped"},
    {CRAFTS, {CODES}, "what attackers agree on is not encoded"},
    {CRAFTS, {STATE_AVERAGED}, "its momenta would tell them apart; take fresh or keep"},
    {BACKDOOR, {DRIFTS_LABELS, DRIFTS_PIXELS},
     "its success is told by images and labels as they were; take drift classes"},
    {BACKDOOR, {BLURS}, "it marks pixels; leave one of the two out"},
    // Samples and nets.
    {BLURS, {CROPS, FLIPS}, "noise would be cropped or flipped with the image; leave one of the two out"},
    {NO_SAMPLES, {BLURS, DRIFTS_PIXELS}, "those are labels alone; leave it out"},
    {NO_IMAGES, {CROPS, FLIPS}, "those samples are no images; leave it out"},
    {WEIGHS_CLASSES, {SMOOTHS}, "a sample then belongs to several classes; leave one of the two out"},
    {BCE, {WEIGHS_CLASSES, SMOOTHS}, "its labels are 0 or 1 and count alike; leave that out"},
    {TARGETS, {SMOOTHS, WEIGHS_CLASSES}, "those samples have no classes; leave it out"},
    {TARGETS, {ATTACKS_SAMPLES}, "those samples have no labels; take another attack"},
    {TARGETS, {DRIFTS_LABELS}, "those samples have no labels; take pixels or classes"},
    {TOKENS, {BLURS, DRIFTS_PIXELS, BACKDOOR}, "those samples are tokens, whole numbers; leave it out"},
    {EMBEDS, {CROPS, FLIPS}, "an embedding reads no images; leave it out"},
    {EMBEDS, {BLURS, DRIFTS_PIXELS}, "an embedding reads whole numbers; leave it out"},
    {WHOLE_BATCHES, {WRITES},
     "a batchnorm has running statistics, which have no gradients to add up; train in rounds (--algorithm fedavg), or "
     "normalise with groupnorm"},
    // These reasons continue the first side: "personal moreau of --algorithm is for the CPU alone".
    {ON_GPU, {HIDES_SAMPLES, CONTRASTS, MOREAU, MIXED, CLUSTERS, MASKS, TRAINS_STATE, BUFFERS, TRUSTS, REPLICAS},
     "is for the CPU alone"},
    {ON_GPU, {GLOBAL_BATCH}, "with batch=global is for the CPU alone"},
    {ON_GPU, {STREAMS}, "with fragments is for the CPU alone"},
    {ON_GPU, {STEPS_ALONE}, "with steps or a bound is for the CPU alone"},
    {ON_GPU, {LOCKSTEP_NODES}, "on several nodes is for the CPU alone"},
    // Pairs of which one changes nothing beside the other.
    {VOTES, {CLIPS_ALONE}, "signs have no length; leave send clip out, or add send noise"},
    {WRITES, {COUNTS_OTHERWISE}, "its steps count by their samples; add combine mean samples"},
    {WEIGHS_CLIENTS, {REPLICAS}, "what replicas give counts alike; leave one of the two out"},
    {WEIGHS_CLIENTS, {STEPS_ON_ONE}, "an update that makes a step alone counts whole; raise K, or leave one of the two out"},
    {OVER_SELECTS, {DRAWS_ALL}, "there are no more clients to ask; lower --clients-per-round"},
};
// clang-format on

#define TRAIT_PART(trait, part) [TRAIT_##trait] = PART_##part,
static const Part parts[TRAIT_COUNT] = {ALGORITHM_TRAITS(TRAIT_PART)};
#define TRAIT_OPTION(trait, option) [TRAIT_##trait] = option,
static const char *const trait_options[TRAIT_COUNT] = {OPTION_TRAITS(TRAIT_OPTION)};

const char *trait_option(Trait trait) {
    return trait_options[trait];
}

const char *trait_rule(char text[TRAIT_RULE_BYTES], Trait trait, const Recipe *recipe) {
    snprintf(text, TRAIT_RULE_BYTES, "%s %s", part_names[parts[trait]], recipe_rule(recipe, parts[trait]));
    return text;
}

// Each trait is one comparison of a row or of its numbers. A trait that combines others is computed after them, so that
// the order of the lines matters.
static void traits_of_clients(bool *has, const Recipe *recipe) {
    const LocalRule *local = local_rules[recipe->local.row];
    const bool buffers = engine_facts[recipe_engine(recipe)].buffers;
    has[ADDS] = recipe->local.row > 0;
    has[KEEPS] = local->keeps;
    has[KEEPS_FOR_ROUNDS] = local->keeps && !local->replicas;
    has[KEEPS_EXACTLY] = local->keeps && !local->asks;
    has[ASKS] = local->asks;
    has[REPLICAS] = local->replicas;
    has[REPLICAS_ARRIVE] = local->replicas && buffers;
    has[CONTRASTS] = local->contrasts;
    has[LOOKS] = local_looks(&recipe->local);
    has[NOT_SGD] = recipe->optimizer.row != OPTIMIZER_SGD;
    has[NESTEROV] = recipe->optimizer.row == OPTIMIZER_SGD && recipe->optimizer.number[0] != 0;
    has[PERSONAL] = recipe->personal.row != PERSONAL_NONE && recipe->personal.row != PERSONAL_FIXED;
    has[ALTERNATES] = recipe->personal.row == PERSONAL_ALTERNATE || recipe->personal.row == PERSONAL_FIXED_HEAD;
    has[MOREAU] = recipe->personal.row == PERSONAL_MOREAU;
    has[MIXED] = recipe->personal.row == PERSONAL_MIXED;
    has[CLUSTERS] = recipe->personal.row == PERSONAL_CLUSTERS;
    has[SECOND] = recipe->personal.row == PERSONAL_DITTO || has[MOREAU] || has[MIXED];
    has[NORMS] = recipe->personal.row == PERSONAL_NORMS;
    has[SCATTERS] = has[NORMS] || recipe->personal.row == PERSONAL_TENSORS;
    has[CLIPS] = recipe->clip.row != CLIP_NONE;
    has[UNCLIPPED] = recipe->clip.row == CLIP_NONE;
    has[ADAPTS_CLIP] = recipe->clip.row == CLIP_ADAPTIVE;
    has[NOISES] = recipe->noise.row != NOISE_NONE;
    has[CLIPS_ALONE] = has[CLIPS] && !has[NOISES];
    has[CODES] = recipe->code.row != SEND_ROW_whole;
    has[MASKS] = recipe->code.row == SEND_ROW_masked;
    has[DECODES] = has[CODES] && !has[MASKS];
    has[FEEDS_BACK] = send_feeds_back(&recipe->code);
    has[VARIES] = send_codes[recipe->code.row]->varies;
    has[NOT_SIGNS] = recipe->code.row != SEND_ROW_sign;
}

// LOCAL_NAME_DIFFERS and SERVER_NAME_DIFFERS are one fact seen from both sides: which of them clashes depends on
// whether the server's rule or the client's needs its other half.
static void traits_of_server(bool *has, const Recipe *recipe) {
    const CombineRule *combine = combine_rules[recipe->combine.row];
    const ServerRule *server = server_rules[recipe->server.row];
    has[MIXES] = recipe->mix.row != MIX_NONE;
    has[COMBINES] = recipe->combine.row != COMBINE_ROW_mean;
    has[ONE_MODEL] = has[COMBINES] && recipe->combine.row != COMBINE_ROW_bound;
    has[SHARES_FIRST] = has[COMBINES] && !combine->rows;
    has[WEIGHS] = !combine_is_uniform(&recipe->combine);
    has[COUNTS_UNEVENLY] = has[COMBINES] || has[WEIGHS];
    has[COUNTS_OTHERWISE] = !combine_counts_samples(&recipe->combine);
    has[TOLD] = combine_is_told(&recipe->combine);
    has[BY_TRAINING] = combine->by_training != NULL;
    has[BY_LOSSES] = combine_wants_losses(&recipe->combine);
    has[SEES_CLIENTS] = combine->rows || has[BY_LOSSES] || combine->bound;
    has[ADAPTERS] = combine->adapters;
    has[ADAPTS] = combine->adapters && adapters_how(&recipe->combine) != ADAPTERS_MEAN;
    has[NOVA] = recipe->combine.row == COMBINE_ROW_nova;
    has[QFFL] = recipe->combine.row == COMBINE_ROW_qffl;
    has[LEARNS] = combine->learn != NULL;
    has[TRUSTS] = combine->trusts;
    has[RELEASES] = recipe->release.row != RELEASE_EXACT;
    has[GAUSSIAN] = recipe->release.row == RELEASE_GAUSSIAN;
    has[TREE] = recipe->release.row == RELEASE_TREE;
    has[MOVES] = recipe->server.row != SERVER_ROW_average;
    has[SCALES] = recipe->server.row == SERVER_ROW_average && recipe->server.number[0] != 1;
    has[SUMS] = server->sums;
    has[VOTES] = recipe->server.row == SERVER_ROW_vote;
    has[TRAINS_STATE] = server->trains_state > 0;
    has[LOCAL_NAME_DIFFERS] = has[SERVER_NAME_DIFFERS] =
        strcmp(local_rules[recipe->local.row]->text.name, server->text.name) != 0;
}

// Numbers of another schedule mean nothing here, so that those of `buffered` are read only where the run buffers.
static void traits_of_schedule(bool *has, const Recipe *recipe) {
    const EngineFacts *engine = &engine_facts[recipe_engine(recipe)];
    const double *number = recipe->schedule.number;
    has[BY_STEPS] = walk_by_steps(&recipe->schedule);
    has[NOT_BUFFERS] = !engine->buffers;
    has[STREAMS] = walk_fragments(&recipe->schedule) > 0;
    has[WRITES] = engine->writes_weights;
    has[WILD] = engine->client_is_worker;
    has[STEPS_ALONE] = has[WILD] && (number[WILD_STEPS] > 1 || !isnan(number[WILD_BOUND]));
    has[LOCKSTEP] = engine->in_lockstep;
    has[GLOBAL_BATCH] = engine->in_lockstep && number[LOCKSTEP_BATCH] == LOCKSTEP_GLOBAL;
    has[SHARES_SAMPLES] = has[GLOBAL_BATCH] || (has[WILD] && number[WILD_DATA] == HOGWILD_FULL);
    has[STALE] = recipe->stale.row != STALE_CONSTANT;
    has[COMPENSATES] = recipe->stale.row == STALE_COMPENSATED;
    has[STALE_SHARES] = has[STALE] && !has[COMPENSATES];
    if (!engine->buffers) return;
    has[BUFFERS] = true;
    has[NEEDS_BEGUN] = stale_wants_begun(&recipe->stale, &recipe->schedule);
    has[BUFFERS_UPDATES] = !has[REPLICAS];
    has[STEPS_ON_ONE] = number[BUFFERED_K] == 1;
    has[STEPS_ON_SEVERAL] = number[BUFFERED_K] != 1 || number[BUFFERED_MIXES] != MIXES_UPDATES;
    has[SEVERAL_STEPS] = number[BUFFERED_STEPS] != 1;
    has[BOUNDS] = !isnan(number[BUFFERED_BOUND]);
    has[PUBLISHES] = number[BUFFERED_DISPATCH] != DISPATCH_ARRIVAL;
    has[GATHERS] = has[STEPS_ON_SEVERAL] || has[PUBLISHES] || has[BOUNDS] || !isnan(number[BUFFERED_LIMIT]);
    has[ONCE] = number[BUFFERED_TWICE] == TWICE_NO;
    has[LAGS] = !isnan(number[BUFFERED_LAG]);
    has[COUNTS_LATER] = number[BUFFERED_K] > 1 && has[WEIGHS];
}

void recipe_traits(Traits *traits, const Recipe *recipe) {
    traits_of_clients(traits->has, recipe);
    traits_of_server(traits->has, recipe);
    traits_of_schedule(traits->has, recipe);
}

// The order of the sides in a message: options first, then parts of the algorithm, then data, net and device.
static int place(Trait trait) {
    return trait >= TRAIT_NO_IMAGES ? 2 : trait_option(trait) ? 0 : 1;
}

// The first row that fits is reported. A list of others ends with 0, which is no trait.
bool clash_among(Clash *clash, const Traits *traits, Trait with) {
    for (const ClashRow *row = clashes; row < clashes + sizeof clashes / sizeof *clashes; row++)
        for (const ShortTrait *at = row->others; traits->has[row->one] && *at; at++) {
            const Trait one = (Trait)row->one, other = (Trait)*at;
            if (!traits->has[other] || (with && with != one && with != other)) continue;
            const bool swaps = place(other) < place(one);
            *clash = (Clash){.sides = {swaps ? other : one, swaps ? one : other}, .why = row->why};
            return true;
        }
    return false;
}
