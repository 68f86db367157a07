package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"
)

// fault is one entry of the schedule.
type fault struct {
	// Number counts from 1.
	Number int
	// Kind is one of kinds.
	Kind string
	// Calm is how long the workload runs undisturbed before the fault, and Lasts how long the fault lasts.
	Calm, Lasts time.Duration
	// Seed decides the fault's random choices.
	Seed uint64
}

func (f fault) String() string {
	return fmt.Sprintf("%d: after %v, %s for %v", f.Number, f.Calm, f.Kind, f.Lasts)
}

// The kinds of faults.
const (
	serverKilled    = "criadapter killed"
	engineKilled    = "engine killed"
	engineEnded     = "engine ended"
	engineStopped   = "engine hangs"
	pluginsFail     = "CNI plugins fail"
	pluginsHang     = "CNI plugins hang"
	pluginsGarble   = "CNI plugins print garbage"
	logDiskFull     = "disk of logs full"
	kubeletDiskFull = "disk of the kubelet full"
	stateDiskFull   = "disk of criadapter full"
	kubeletKilled   = "kubelet killed"
	pruneCron       = "docker system prune each second"
	descriptorsFew  = "criadapter has few descriptors"
	memoryShort     = "criadapter has little memory"
	mountHangs      = "mount of a volume hangs"
)

// kinds returns all kinds of faults, in the order of the output.
func kinds() []string {
	return []string{serverKilled, engineKilled, engineEnded, engineStopped, pluginsFail, pluginsHang, pluginsGarble,
		logDiskFull, kubeletDiskFull, stateDiskFull, kubeletKilled, pruneCron, descriptorsFew, memoryShort, mountHangs}
}

// Bounds of fault.Calm and fault.Lasts, in seconds.
const (
	calmLeast, calmMost   = 10, 25
	lastsLeast, lastsMost = 3, 20
)

// schedule is endless, and the same for the same seed. Kinds are dealt like cards: each kind comes once before any kind
// comes again.
func schedule(seed uint64) iter.Seq[fault] {
	return func(yield func(fault) bool) {
		random := rand.New(rand.NewPCG(seed, seed))
		var deck []string
		for number := 1; ; number++ {
			if len(deck) == 0 {
				deck = kinds()
				random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
			}
			f := fault{
				Number: number, Kind: deck[0], Seed: random.Uint64(),
				Calm: seconds(random, calmLeast, calmMost), Lasts: seconds(random, lastsLeast, lastsMost),
			}
			deck = deck[1:]
			if !yield(f) {
				return
			}
		}
	}
}

// planned has a line for each fault of a schedule that fits into the time. A run makes fewer, because the checks
// between faults take time, too.
func planned(seed uint64, within time.Duration) string {
	var text strings.Builder
	var at time.Duration
	for f := range schedule(seed) {
		if at += f.Calm; at+f.Lasts > within {
			break
		}
		fmt.Fprintln(&text, f)
		at += f.Lasts
	}
	return text.String()
}

func seconds(random *rand.Rand, least, most int) time.Duration {
	return time.Duration(least+random.IntN(most-least+1)) * time.Second
}
