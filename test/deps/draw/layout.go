package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/criadapter/criadapter/test/deps"
)

// box is a package in the drawing.
type box struct {
	name      string // without the prefix of all names in the drawing
	wires     bool   // it imports all others, as a program's root does; its arrows are left out
	imports   []*box
	importers int
	floor     int // 0 is the ground: imports no package of the drawing
	x, width  float64
}

// popular is a number of importers. A box with at least that many shows the number of its importers instead of arrows.
const popular = 9

// pictures returns the drawings by file name.
func pictures() map[string]string {
	kubelet := func(path string) bool {
		return path == "kubelet" || strings.HasPrefix(path, "kubelet/") || strings.HasPrefix(path, "cmd/kubelet-core")
	}
	server := func(path string) bool { return !kubelet(path) }
	return map[string]string{
		"docs/packages-server.svg": svg("criadapter: imports between packages", layOut(deps.Rules(), server, "")),
		"docs/packages-kubelet.svg": svg("the kubelet core: imports between packages",
			layOut(deps.Rules(), kubelet, "kubelet/")),
	}
}

// layOut places the packages that ship. Each is one floor above the highest package that it may import, and near its
// importers and imports.
func layOut(table []deps.Rule, wanted func(path string) bool, prefix string) [][]*box {
	boxes := boxesOf(table, wanted, prefix)
	floors := make([][]*box, 0, 8)
	for _, b := range boxes {
		for len(floors) <= b.floor {
			floors = append(floors, nil)
		}
		floors[b.floor] = append(floors[b.floor], b)
	}
	for range 12 {
		for _, floor := range floors[1:] {
			slices.SortStableFunc(floor, func(a, b *box) int { return cmp.Compare(below(a), below(b)) })
			place(floor)
		}
		for i := len(floors) - 2; i >= 0; i-- {
			above := slices.Concat(floors[i+1:]...)
			slices.SortStableFunc(floors[i], func(a, b *box) int { return cmp.Compare(over(a, above), over(b, above)) })
			place(floors[i])
		}
	}
	return floors
}

// boxesOf returns the packages of the table in its order, with their arrows and floors.
func boxesOf(table []deps.Rule, wanted func(path string) bool, prefix string) []*box {
	boxes := make([]*box, 0, len(table))
	byName := map[string]*box{}
	for _, rule := range table {
		if !wanted(rule.Path) || strings.HasPrefix(rule.Path, "test/") || strings.HasSuffix(rule.Path, "test") {
			continue
		}
		name := strings.TrimPrefix(rule.Path, prefix)
		b := &box{name: name, width: 24 + 7.2*float64(len(name)),
			wires: slices.Contains(rule.May, "*") || rule.Path == "kubelet"}
		boxes, byName[rule.Path] = append(boxes, b), b
	}
	for _, rule := range table {
		b := byName[rule.Path]
		for _, may := range rule.May {
			if to := byName[may]; b != nil && to != nil {
				b.imports = append(b.imports, to)
				to.importers++
			}
		}
	}
	for range boxes { // the longest path has at most one step per package
		for _, b := range boxes {
			for _, to := range b.imports {
				b.floor = max(b.floor, to.floor+1)
			}
		}
	}
	top := 0
	for _, b := range boxes {
		top = max(top, b.floor)
	}
	for _, b := range boxes {
		if b.wires && len(b.imports) == 0 {
			b.floor = top + 1 // a program stands above all packages that it wires
		}
	}
	return boxes
}

// below is the mean place of a package's imports, and over the mean place of its importers.
func below(b *box) float64 { return mean(b.x, b.imports) }

func over(b *box, above []*box) float64 {
	var importers []*box
	for _, other := range above {
		if slices.Contains(other.imports, b) {
			importers = append(importers, other)
		}
	}
	return mean(b.x, importers)
}

func mean(otherwise float64, boxes []*box) float64 {
	var sum, count float64
	for _, b := range boxes {
		if b.importers < popular {
			sum, count = sum+b.x, count+1
		}
	}
	if count == 0 {
		return otherwise
	}
	return sum / count
}

// gap is the space between two boxes of a floor.
const gap = 16

// place puts a floor's boxes side by side around the middle, which is 0.
func place(floor []*box) {
	total := -float64(gap)
	for _, b := range floor {
		total += b.width + gap
	}
	left := -total / 2
	for _, b := range floor {
		b.x = left + b.width/2
		left += b.width + gap
	}
}
