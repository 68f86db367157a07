package client

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// TableOptions choose the columns of a table. All ages count up to Now.
type TableOptions struct {
	// Wide adds the node and the images.
	Wide bool
	Now  time.Time
}

// header names the columns of a pod table.
func (o TableOptions) header() []string {
	columns := []string{"NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP"}
	if o.Wide {
		columns = append(columns, "NODE", "IMAGES")
	}
	return columns
}

// WriteTable writes the pods as a table, sorted by namespace and name.
func WriteTable(out io.Writer, pods []v1.Pod, opts TableOptions) error {
	var table columns
	return table.write(out, append([][]string{opts.header()}, opts.rows(pods)...)...)
}

func (o TableOptions) rows(pods []v1.Pod) [][]string {
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b v1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	var rows [][]string
	for i := range sorted {
		rows = append(rows, o.row(summarize(&sorted[i])))
	}
	return rows
}

func (o TableOptions) row(s summary) []string {
	cells := []string{s.namespace, s.name, fmt.Sprintf("%d/%d", s.ready, s.total), s.status, restarts(s, o.Now),
		age(o.Now, s.created), orNone(s.ip)}
	if o.Wide {
		cells = append(cells, orNone(s.node), s.images)
	}
	return cells
}

func restarts(s summary, now time.Time) string {
	if s.restarts == 0 || s.lastRestart.IsZero() {
		return strconv.Itoa(int(s.restarts))
	}
	return fmt.Sprintf("%d (%s ago)", s.restarts, age(now, s.lastRestart))
}

func orNone(value string) string { return cmp.Or(value, "<none>") }

// WatchOptions configure Watch.
type WatchOptions struct {
	// Wanted chooses pods; nil means all.
	Wanted func(*v1.Pod) bool
	// Wide adds the columns of a wide table.
	Wide bool
	// period is how often pods are listed. Zero means a second.
	period time.Duration
}

// Watch writes a table of the pods, and then a line for each changed pod, until ctx ends. Then it returns nil. It fails
// if the kubelet does not answer the first request. It repeats later requests until the kubelet answers.
func (c *Client) Watch(ctx context.Context, out io.Writer, opts WatchOptions) error {
	w := watcher{out: out, wide: opts.Wide, observed: map[string]summary{}}
	for {
		pods, err := c.Pods(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !w.started:
			return err
		case err == nil:
			if err := w.show(choose(pods, opts.Wanted)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(opts.period, time.Second)):
		}
	}
}

func choose(pods []v1.Pod, wanted func(*v1.Pod) bool) []v1.Pod {
	if wanted == nil {
		return pods
	}
	return slices.DeleteFunc(pods, func(pod v1.Pod) bool { return !wanted(&pod) })
}

// watcher writes the pods that changed since the last call of show.
type watcher struct {
	out      io.Writer
	wide     bool
	table    columns
	started  bool
	observed map[string]summary // by UID
}

func (w *watcher) show(pods []v1.Pod) error {
	form := TableOptions{Wide: w.wide, Now: time.Now()}
	var rows [][]string
	if !w.started {
		rows = append(rows, form.header())
		w.started = true
	}
	gone := maps.Clone(w.observed)
	for i := range pods {
		key := string(pods[i].UID)
		summary := summarize(&pods[i])
		delete(gone, key)
		if w.observed[key] != summary {
			w.observed[key] = summary
			rows = append(rows, form.row(summary))
		}
	}
	for key, summary := range gone {
		delete(w.observed, key)
		summary.ready, summary.status = 0, "Gone"
		rows = append(rows, form.row(summary))
	}
	return w.table.write(w.out, rows...)
}
