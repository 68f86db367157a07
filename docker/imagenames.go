package docker

import (
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/image"
)

// noName is what engines below API 1.43 put for the missing part of an untagged
// image's name.
const noName = "<none>"

// tidyNames makes an image's names the same whatever engine listed them: without
// placeholders and doubles, and names by digest among the digests alone. Engines
// with the containerd image store have those of an image that was pulled by digest
// among the tags, too; among the digests they have the bare digest of an image
// that lacks this platform, and in lists that of one repository alone. There an
// image's id is its manifest's digest, by which every repository has it.
func tidyNames(id string, tags, digests []string, containerdImageStore bool) (tidyTags, tidyDigests []string) {
	add := func(names *[]string, name string) {
		if !strings.Contains(name, noName) && !slices.Contains(*names, name) {
			*names = append(*names, name)
		}
	}
	for _, name := range slices.Concat(digests, tags) {
		if strings.Contains(name, "@") {
			add(&tidyDigests, name)
		}
	}
	for _, name := range tags {
		if strings.Contains(name, "@") {
			continue
		}
		add(&tidyTags, name)
		if repository := familiarRepository(name); containerdImageStore && repository != "" {
			add(&tidyDigests, repository+"@"+id)
		}
	}
	return tidyTags, tidyDigests
}

// familiarRepository is a name without its tag, as the engine writes it; empty
// for what is no name.
func familiarRepository(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return reference.FamiliarName(named)
}

// joined makes one of the summaries that are of one image: 23.0 and 24.0 with the
// containerd image store have one for each of its names.
func joined(summaries []image.Summary) []image.Summary {
	at := make(map[string]int, len(summaries))
	once := make([]image.Summary, 0, len(summaries))
	for _, summary := range summaries {
		i, seen := at[summary.ID]
		if !seen {
			at[summary.ID] = len(once)
			once = append(once, summary)
			continue
		}
		once[i].RepoTags = slices.Concat(once[i].RepoTags, summary.RepoTags)
		once[i].RepoDigests = slices.Concat(once[i].RepoDigests, summary.RepoDigests)
	}
	return once
}
