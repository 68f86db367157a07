package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/criadapter/criadapter/test/rig/engine"
	"github.com/criadapter/criadapter/test/rig/rigenv"
)

// target is what a rig is made for: an engine, and the kind of pods that the servers on it make.
type target struct {
	engine.Variant
	mode string // as rigenv.Env.Mode
}

// namedTargets reads ENGINE and RUNTIME_MODE.
func namedTargets() ([]target, error) { return targets(os.Getenv("ENGINE"), os.Getenv("RUNTIME_MODE")) }

// targets pairs a comma-separated list of engines with one mode for all of them, or with one for each.
func targets(engines, modes string) ([]target, error) {
	variants, err := engine.List(engines)
	if err != nil {
		return nil, err
	}
	list := strings.Split(modes, ",")
	if len(list) != 1 && len(list) != len(variants) {
		return nil, fmt.Errorf("RUNTIME_MODE=%s: want one mode, or one for each of the %d engines", modes, len(variants))
	}
	var all []target
	for i, v := range variants {
		mode := list[i%len(list)]
		switch mode {
		case "", rigenv.ModeOCI, rigenv.ModeContainer:
		default:
			return nil, fmt.Errorf("RUNTIME_MODE=%s: want %s or %s", mode, rigenv.ModeOCI, rigenv.ModeContainer)
		}
		all = append(all, target{v, mode})
	}
	return all, nil
}

// namedTarget is namedTargets for what takes one engine at a time.
func namedTarget() (target, error) {
	all, err := namedTargets()
	if err != nil {
		return target{}, err
	}
	if len(all) > 1 {
		return target{}, fmt.Errorf("ENGINE=%s: want one engine", os.Getenv("ENGINE"))
	}
	return all[0], nil
}

// label names the target where there are others.
func (t target) label() string {
	if t.mode == "" {
		return t.Name
	}
	return t.Name + ", " + t.mode
}
