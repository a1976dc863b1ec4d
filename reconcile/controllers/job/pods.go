package job

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// completionIndexEnv is the environment variable that holds the index of the pod.
const completionIndexEnv = "JOB_COMPLETION_INDEX"

// jobPod is a pod to create: its name and, in an Indexed Job, its index.
type jobPod struct {
	name  string
	index int
}

// create creates the pods of plan and returns how many it created. Their names make a second
// process that decides the same be refused.
func (c *Controller) create(ctx context.Context, job *batchv1.Job, owned []*corev1.Pod, plan *jobPlan) (int, error) {
	pods, err := c.names(job, owned, plan)
	if err != nil {
		return 0, err
	}
	if err := c.settleTried(ctx, job, pods); err != nil || len(pods) == 0 {
		return 0, err
	}
	template := jobTemplate(job)
	var made atomic.Int32
	for size := 1; len(pods) > 0; size *= 2 {
		batch := pods[:min(size, len(pods))]
		pods = pods[len(batch):]
		err := loop.InParallel(batch, func(p jobPod) error {
			ok, err := c.createOne(ctx, job, newJobPod(job, template, p, plan.last[p.index]))
			if ok {
				made.Add(1)
			}
			return err
		})
		if err != nil {
			return int(made.Load()), err
		}
	}
	return int(made.Load()), nil
}

// names chooses the lowest free names for the pods of plan.
func (c *Controller) names(job *batchv1.Job, owned []*corev1.Pod, plan *jobPlan) (pods []jobPod, err error) {
	if !isIndexed(job) {
		names, err := owner.PodNames(job, owned, c.pods.Unanswered(localcache.KeyOf(job)), plan.create, c.config.Pods.Get)
		for _, name := range names {
			pods = append(pods, jobPod{name, noIndex})
		}
		return pods, err
	}
	taken := make(map[string]bool, len(owned))
	for _, pod := range owned {
		taken[pod.Name] = true
	}
	for _, index := range plan.indexes {
		name, err := c.indexName(job, index, taken)
		if err != nil {
			return nil, err
		}
		pods = append(pods, jobPod{name, index})
	}
	return pods, nil
}

// indexName returns the first free name for a pod at index. A cached pod of the job that was not
// there when the plan was made means that the plan is out of date.
func (c *Controller) indexName(job *batchv1.Job, index int, taken map[string]bool) (string, error) {
	for number := 0; ; number++ {
		name := owner.PodName(indexPrefix(job, index), job.UID, number)
		if taken[name] {
			continue
		}
		pod, ok := c.config.Pods.Get(localcache.Key(job.Namespace, name))
		if !ok {
			return name, nil
		}
		if metav1.IsControlledBy(pod, job) {
			return "", loop.ErrStale
		}
	}
}

// indexPrefix returns the prefix of the names of pods at index. It keeps the index complete and
// shortens the name of the job instead.
func indexPrefix(job *batchv1.Job, index int) string {
	suffix := "-" + strconv.Itoa(index) + "-"
	return job.Name[:min(len(job.Name), owner.MaxPrefix-len(suffix))] + suffix
}

// settleTried finds out whether pods exist whose creation was tried and that are no longer wanted,
// before other pods are created.
func (c *Controller) settleTried(ctx context.Context, job *batchv1.Job, pods []jobPod) error {
	unwanted := func(name string) bool {
		return !slices.ContainsFunc(pods, func(p jobPod) bool { return p.name == name })
	}
	if !slices.ContainsFunc(c.pods.Unanswered(localcache.KeyOf(job)), unwanted) {
		return nil
	}
	if err := c.pods.Probe(ctx, job); err != nil {
		return err
	}
	if slices.ContainsFunc(c.pods.Unanswered(localcache.KeyOf(job)), unwanted) {
		return loop.ErrStale // it exists, and the copy is about to show it
	}
	return nil
}

// createOne reports whether the pod was created.
func (c *Controller) createOne(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) (bool, error) {
	// Record the attempt first: the pod may exist although the answer is lost.
	c.pods.Attempt(localcache.KeyOf(job), pod.Name)
	made, err := c.config.PodWriter.Create(ctx, pod)
	if err == nil || loop.Refused(err) {
		c.pods.Answered(localcache.KeyOf(job), pod.Name)
	}
	switch {
	case err == nil:
		c.ledger.Add(localcache.KeyOf(job), c.config.Pods, made.ResourceVersion)
		c.config.Events.Event(job, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+made.Name)
		return true, nil
	case apierrors.IsAlreadyExists(err):
		return false, loop.ErrStale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return false, nil // the job is about to go as well
	}
	if ctx.Err() == nil {
		c.config.Events.Event(job, corev1.EventTypeWarning, "FailedCreate", "Error creating: "+err.Error())
	}
	return false, fmt.Errorf("create pod %s: %w", localcache.KeyOf(pod), err)
}

// jobTemplate returns the pod template with what every pod of a Job has. The API server may have
// set the labels already.
func jobTemplate(job *batchv1.Job) *corev1.PodTemplateSpec {
	t := job.Spec.Template.DeepCopy()
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	if t.Annotations == nil {
		t.Annotations = make(map[string]string)
	}
	if !optional.Value(job.Spec.ManualSelector, false) {
		for _, label := range []string{batchv1.JobNameLabel, "job-name"} {
			t.Labels[label] = job.Name
		}
		for _, label := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
			t.Labels[label] = string(job.UID)
		}
	}
	t.Finalizers = withString(t.Finalizers, batchv1.JobTrackingFinalizer)
	if isIndexed(job) {
		for _, list := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
			for i := range list {
				addIndexEnv(&list[i])
			}
		}
	}
	return t
}

func addIndexEnv(c *corev1.Container) {
	if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == completionIndexEnv }) {
		return
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: completionIndexEnv, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
	}})
}

// newJobPod returns a new pod. last is the pod that failed at its index before, or nil.
func newJobPod(job *batchv1.Job, template *corev1.PodTemplateSpec, p jobPod, last *corev1.Pod) *corev1.Pod {
	pod := owner.NewPod(job, *metav1.NewControllerRef(job, jobKind), template, p.name)
	if p.index == noIndex {
		return pod
	}
	index := strconv.Itoa(p.index)
	pod.GenerateName = indexPrefix(job, p.index)
	pod.Labels[batchv1.JobCompletionIndexAnnotation] = index
	pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index
	pod.Spec.Hostname = job.Name + "-" + index
	if job.Spec.BackoffLimitPerIndex == nil {
		return pod
	}
	var counted, ignored int32
	if last != nil {
		counted = annotatedCount(last, batchv1.JobIndexFailureCountAnnotation)
		ignored = annotatedCount(last, batchv1.JobIndexIgnoredFailureCountAnnotation)
		if judge(job.Spec.PodFailurePolicy, last).ignore {
			ignored++
		} else {
			counted++
		}
	}
	pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(int(counted))
	if ignored > 0 {
		pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(int(ignored))
	}
	return pod
}

// letGo removes the finalizer of pods. A pod that no longer exists needs nothing.
func (c *Controller) letGo(ctx context.Context, job string, pods []*corev1.Pod) error {
	return loop.InParallel(pods, func(pod *corev1.Pod) error {
		patched, err := c.config.PodWriter.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, owner.FinalizerPatch(pod, batchv1.JobTrackingFinalizer))
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return fmt.Errorf("let pod %s go: %w", localcache.KeyOf(pod), err)
		}
		c.ledger.Add(job, c.config.Pods, patched.ResourceVersion)
		return nil
	})
}

// withString returns list with s added.
func withString(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(slices.Clone(list), s)
}
