package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/criadapter/criadapter/internal/pace"
	"github.com/criadapter/criadapter/test/rig/numbered"
)

const (
	// churnPause is the pause between two changes of the workload.
	churnPause = 2 * time.Second
	// mostPods is the number of pods above which churn makes no more.
	mostPods = 40
	// keptFor is the age from which ended Jobs and pods are deleted.
	keptFor = time.Minute
)

// churn changes the workload again and again. It pauses while hold is locked.
type churn struct {
	*workload
	random *rand.Rand
	hold   sync.Mutex
	cancel context.CancelFunc
	ended  chan error
}

func startChurn(ctx context.Context, w *workload, seed uint64) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{workload: w, random: rand.New(rand.NewPCG(seed, 1)), cancel: cancel, ended: make(chan error, 1)}
	go func() { c.ended <- c.run(ctx) }()
	return c
}

// stop ends the churn and returns the error that ended it earlier, if any.
func (c *churn) stop() error {
	c.cancel()
	return <-c.ended
}

func (c *churn) run(ctx context.Context) error {
	for pace.Sleep(ctx, churnPause) == nil {
		c.hold.Lock()
		err := c.change(context.WithoutCancel(ctx)) // a change is not left half done
		c.hold.Unlock()
		if err != nil {
			return fmt.Errorf("workload: %w", err)
		}
	}
	return nil
}

// change makes one change.
func (c *churn) change(ctx context.Context) error {
	pods, err := c.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if err := c.tidy(ctx, pods.Items); err != nil {
		return err
	}
	dice := c.random.IntN(20)
	if len(pods.Items) > mostPods && dice < 13 {
		return nil
	}
	short := fmt.Sprintf("sleep %d.%d", c.random.IntN(3), c.random.IntN(10))
	switch {
	case dice < 5:
		return c.runPod(ctx, short, 0)
	case dice < 7:
		return c.runPod(ctx, short, 3)
	case dice < 10:
		return c.runJob(ctx, "job", short, 0)
	case dice < 11:
		return c.runJob(ctx, "failing", short, 7)
	case dice < 13:
		return c.runJob(ctx, writingJob,
			numbered.Function+fmt.Sprintf("lines 1 %d; sleep 0.2; lines %d %d", jobLines/2, jobLines/2+1, jobLines), 0)
	case dice < 17:
		return c.remove(ctx, pods.Items, nil)
	case dice < 18:
		now := int64(0)
		return c.remove(ctx, pods.Items, &now)
	default:
		return c.restart(ctx, []string{"web", "api", "door"}[c.random.IntN(3)])
	}
}

// writingJob is the prefix of the names of Jobs that write numbered lines.
const writingJob = "writing"

// remove deletes one pod at random. A grace of zero seconds deletes it at once.
func (c *churn) remove(ctx context.Context, pods []v1.Pod, grace *int64) error {
	if len(pods) == 0 {
		return nil
	}
	pod := pods[c.random.IntN(len(pods))]
	return gone(
		c.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: grace}))
}

// tidy deletes ended Jobs and pods that were created longer than keptFor ago.
func (c *churn) tidy(ctx context.Context, pods []v1.Pod) error {
	old := time.Now().Add(-keptFor)
	for _, pod := range pods {
		over := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		owner := metav1.GetControllerOf(&pod)
		if over && (owner == nil || owner.Kind != "Job") && pod.CreationTimestamp.Time.Before(old) {
			if err := gone(
				c.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})); err != nil {
				return err
			}
		}
	}
	jobs, err := c.jobs(ctx)
	if err != nil {
		return err
	}
	background := metav1.DeletePropagationBackground
	for _, job := range jobs {
		if jobEnd(job) != "" && job.CreationTimestamp.Time.Before(old) {
			if err := gone(
				c.client.BatchV1().Jobs(namespace).Delete(ctx, job.Name,
					metav1.DeleteOptions{PropagationPolicy: &background})); err != nil {
				return err
			}
		}
	}
	return nil
}
