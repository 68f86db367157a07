package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/template"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/criadapter/criadapter/test/cluster/single"
	"github.com/criadapter/criadapter/test/rig/numbered"
	"github.com/criadapter/criadapter/test/rig/rigenv"
	"github.com/criadapter/criadapter/test/soak/history"
)

//go:embed workload.yaml
var workloadYAML string

const (
	// namespace is the namespace of the workload.
	namespace = "soak"
	// crasher is the Deployment that is never ready.
	crasher = "crash"
	// writers is the Deployment whose logs are counted. Its containers keep their count in writtenFile. A restarted
	// container moves the count of the previous container to previousFile.
	writers      = "writer"
	writtenFile  = "volumes/kubernetes.io~empty-dir/count/written"
	previousFile = "volumes/kubernetes.io~empty-dir/count/previous"
	// jobLines is the number of lines that a Job's writer writes.
	jobLines = 400
)

// keepCount keeps the count of the previous container, and no count if that container has recorded none. The count of
// an older container would not fit the previous container's log.
const keepCount = `mv /count/written /count/previous 2>/dev/null || rm -f /count/previous`

// writerScript writes 20 lines a second, and their number to a file.
const writerScript = numbered.Function + keepCount + "; " +
	`i=0; while :; do lines $((i + 1)) $((i + 5)); i=$((i + 5)); echo $i > /count/written 2>/dev/null; sleep 0.25; done`

// workload is the set of objects that run on the cluster.
type workload struct {
	client         kubernetes.Interface
	shell, service string
	cluster        *single.Cluster
	made           int
	// wrong has a difference for each Job that ended with a wrong result, by the Job's name.
	wrong map[string]history.Difference
}

// newWorkload connects as cluster administrator.
func newWorkload(cluster *single.Cluster, env rigenv.Env) (*workload, error) {
	config, err := clientcmd.BuildConfigFromFlags("", cluster.Plane.Admin)
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &workload{
		client: client, cluster: cluster, wrong: make(map[string]history.Difference),
		shell: env.Image("test/busybox:latest"), service: env.Image("test/hello:latest"),
	}, nil
}

// begin makes the namespace with the objects that last for the whole run.
func (w *workload) begin(ctx context.Context, dir string) error {
	if err := w.cluster.MakeNamespace(ctx, namespace); err != nil {
		return err
	}
	text, err := template.New("workload").Parse(workloadYAML)
	if err != nil {
		return err
	}
	var manifest strings.Builder
	if err := text.Execute(&manifest,
		map[string]string{"Shell": w.shell, "Service": w.service, "Writer": writerScript}); err != nil {
		return err
	}
	path := filepath.Join(dir, "workload.yaml")
	if err := os.WriteFile(path, []byte(manifest.String()), 0o644); err != nil {
		return err
	}
	_, err = w.cluster.Plane.Kubectl(ctx, "apply", "--namespace", namespace, "--filename", path)
	return err
}

// end deletes the namespace and waits until the API server has none of its objects.
func (w *workload) end(ctx context.Context) error {
	_, err := w.cluster.Plane.Kubectl(ctx, "delete", "namespace", namespace, "--timeout=8m")
	return err
}

// name makes the name of the next object.
func (w *workload) name(kind string) string {
	w.made++
	return kind + "-" + strconv.Itoa(w.made)
}

// task is a pod template that runs a script and ends with a known exit code.
func (w *workload) task(script string, exitCode int) v1.PodTemplateSpec {
	return v1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Annotations: map[string]string{history.ExitCodeAnnotation: strconv.Itoa(exitCode)}},
		Spec: v1.PodSpec{
			RestartPolicy: v1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
			Containers: []v1.Container{{
				Name: "main", Image: w.shell, ImagePullPolicy: v1.PullIfNotPresent,
				Command: []string{"sh", "-c", fmt.Sprintf("%s; exit %d", script, exitCode)},
			}},
		},
	}
}

// pod is a pod with a task, and without a controller.
func (w *workload) pod(name, script string, exitCode int) *v1.Pod {
	template := w.task(script, exitCode)
	template.Name = name
	return &v1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
}

// runPod runs a short pod without a controller.
func (w *workload) runPod(ctx context.Context, script string, exitCode int) error {
	pod := w.pod(w.name("short"), script, exitCode)
	_, err := w.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// runJob runs a Job. It succeeds only with exit code 0. With another exit code it has no retries.
func (w *workload) runJob(ctx context.Context, kind, script string, exitCode int) error {
	retries := int32(20)
	if exitCode != 0 {
		retries = 0
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: w.name(kind),
			Annotations: map[string]string{history.ExitCodeAnnotation: strconv.Itoa(exitCode)}},
		Spec: batchv1.JobSpec{BackoffLimit: &retries, Template: w.task(script, exitCode)},
	}
	_, err := w.client.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{})
	return err
}

// restart rolls a Deployment, as kubectl rollout restart does.
func (w *workload) restart(ctx context.Context, deployment string) error {
	_, err := w.cluster.Plane.Kubectl(ctx, "rollout", "restart", "--namespace", namespace, "deployment/"+deployment)
	return err
}

// settled returns an error that lists what is still under way: Deployments without all pods, terminating pods, and Jobs
// and short pods that have not ended.
func (w *workload) settled(ctx context.Context) error {
	deployments, err := w.client.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range deployments.Items {
		if d.Name != crasher {
			errs = append(errs, deploymentSettled(d))
		}
	}
	pods, err := w.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pod := range pods.Items {
		over := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		if pod.DeletionTimestamp != nil {
			errs = append(errs, fmt.Errorf("pod %s is being deleted", pod.Name))
		} else if _, ends := pod.Annotations[history.ExitCodeAnnotation]; ends && !over {
			errs = append(errs, fmt.Errorf("pod %s is %s", pod.Name, pod.Status.Phase))
		}
	}
	jobs, err := w.jobs(ctx)
	for _, job := range jobs {
		if jobEnd(job) == "" {
			errs = append(errs, fmt.Errorf("job %s has not ended", job.Name))
		}
	}
	return errors.Join(append(errs, err)...)
}

func deploymentSettled(d appsv1.Deployment) error {
	want, have := *d.Spec.Replicas, d.Status
	if have.ObservedGeneration < d.Generation || have.UpdatedReplicas != want || have.ReadyReplicas != want ||
		have.Replicas != want {
		return fmt.Errorf("deployment %s: want %d pods, %d are of the newest template, %d are ready, %d exist",
			d.Name, want, have.UpdatedReplicas, have.ReadyReplicas, have.Replicas)
	}
	return nil
}

// jobs lists the Jobs, and records the ended ones with a wrong result. It must not be called concurrently.
func (w *workload) jobs(ctx context.Context) ([]batchv1.Job, error) {
	list, err := w.client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, job := range list.Items {
		want := batchv1.JobComplete
		if job.Annotations[history.ExitCodeAnnotation] != "0" {
			want = batchv1.JobFailed
		}
		if got := jobEnd(job); got != "" && got != want {
			w.wrong[job.Name] = history.Difference{
				Rule: "the Job ended with a wrong result", Pod: job.Name, API: fmt.Sprintf("%s, want %s", got, want)}
		}
	}
	return list.Items, nil
}

// jobEnd is the condition with which a Job ended, empty if it has not ended.
func jobEnd(job batchv1.Job) batchv1.JobConditionType {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == v1.ConditionTrue {
			return c.Type
		}
	}
	return ""
}

// gone drops the error of an object that no longer exists.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
