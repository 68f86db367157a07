package docker

import (
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/types/image"
)

// noName is the placeholder of engines below API 1.43 for a missing part of an image's name.
const noName = "<none>"

// tidyNames makes an image's names the same for all engines. Its results have no placeholders or duplicates, and only
// tidyDigests has names by digest.
//
// Engines with the containerd image store list digests of a pulled image among its tags, too. For an image that lacks
// this platform, they list a bare digest. They list the digest of one repository only. The image ids of these engines
// are manifest digests, so tidyNames adds the id as a digest of each repository among the tags.
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

// familiarRepository returns a name without its tag, as the engine writes it. It returns "" for an invalid name.
func familiarRepository(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return ""
	}
	return reference.FamiliarName(named)
}

// joined merges the summaries of the same image. Docker 23.0 and 24.0 with the containerd image store list one summary
// for each name of an image.
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
