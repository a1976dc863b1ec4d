package job

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A pod of a Job is counted exactly once, also if this process ends at any point, because a
// finalizer keeps the pod until then. When the pod has ended, its UID is written to
// uncountedTerminatedPods in the status of the Job. Then the finalizer is removed. The write that
// removes the UID from the status adds one to a count. A completion index needs no UID: it is in
// completedIndexes or it is not.

// tracked reports whether a pod still has the finalizer.
func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// jobPods is a Job and its pods, sorted by state.
type jobPods struct {
	job *batchv1.Job
	// all holds the pods of the Job in an order that depends only on the pods.
	all []*corev1.Pod
	// active holds active pods, and loose those whose deletion was begun but not finished. The
	// result of a loose pod does not count.
	active, loose []*corev1.Pod
	// terminating holds the pods that are being deleted and have not ended yet.
	terminating map[types.UID]*corev1.Pod
	// succeeded and failed hold the tracked pods that have ended and that the status does not count
	// yet.
	succeeded, failed []*corev1.Pod
	// done and broken are the indexes that succeeded and that failed for good, including those that
	// the status does not have yet; before are those that it has.
	before, done, broken indexes
	// last holds, for each index without an active pod, the failed pod whose number of failures the
	// next pod inherits.
	last map[int]*corev1.Pod
}

func isIndexed(job *batchv1.Job) bool {
	return optional.Value(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
}

// replacesFailedOnly reports whether a terminating pod is replaced only after it has ended.
func replacesFailedOnly(job *batchv1.Job) bool {
	return optional.Value(job.Spec.PodReplacementPolicy, batchv1.TerminatingOrFailed) == batchv1.Failed || job.Spec.PodFailurePolicy != nil
}

// hasFailed reports whether a pod counts as a failure, also if it is still terminating.
func hasFailed(job *batchv1.Job, pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed ||
		pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded && !replacesFailedOnly(job)
}

// sortJobPods divides pods. deleted reports whether a pod is being deleted although the cache does
// not show it.
func sortJobPods(job *batchv1.Job, pods []*corev1.Pod, deleted func(types.UID) bool) *jobPods {
	p := &jobPods{job: job, all: slices.Clone(pods), terminating: make(map[types.UID]*corev1.Pod)}
	slices.SortFunc(p.all, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(completionIndex(a), completionIndex(b)), strings.Compare(a.Name, b.Name))
	})
	for _, pod := range p.all {
		switch {
		case podstatus.Ended(pod):
		case pod.DeletionTimestamp != nil || deleted(pod.UID):
			p.terminating[pod.UID] = pod
		case tracked(pod):
			p.active = append(p.active, pod)
		default:
			p.loose = append(p.loose, pod)
		}
		if !p.countable(pod) {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded {
			p.succeeded = append(p.succeeded, pod)
		} else if hasFailed(job, pod) {
			p.failed = append(p.failed, pod)
		}
	}
	if isIndexed(job) {
		p.sortIndexes()
	}
	return p
}

// countable reports whether the end of a pod is still to be counted.
func (p *jobPods) countable(pod *corev1.Pod) bool {
	u := p.job.Status.UncountedTerminatedPods
	return tracked(pod) && (u == nil || !slices.Contains(u.Succeeded, pod.UID) && !slices.Contains(u.Failed, pod.UID)) &&
		(!isIndexed(p.job) || p.validIndex(completionIndex(pod)))
}

func (p *jobPods) validIndex(index int) bool {
	return index != noIndex && index < p.completions()
}

// completions returns the number of requested successes; for a Job that does not say, the largest
// number.
func (p *jobPods) completions() int {
	return int(optional.Value(p.job.Spec.Completions, math.MaxInt32))
}

func (p *jobPods) sortIndexes() {
	p.before = parseIndexes(p.job.Status.CompletedIndexes, p.completions())
	p.done = p.before.with(indexesOf(p.succeeded)...)
	if p.job.Spec.BackoffLimitPerIndex == nil {
		return
	}
	p.broken = parseIndexes(optional.Value(p.job.Status.FailedIndexes, ""), p.completions())
	var breaking []int
	for _, pod := range p.all {
		if tracked(pod) && p.validIndex(completionIndex(pod)) && breaksIndex(p.job, pod) {
			breaking = append(breaking, completionIndex(pod))
		}
	}
	p.broken = p.broken.with(breaking...)
	p.last = make(map[int]*corev1.Pod)
	settled := p.done.union(p.broken).with(indexesOf(p.active)...)
	for _, pod := range p.all {
		i := completionIndex(pod)
		if !tracked(pod) || !hasFailed(p.job, pod) || !p.validIndex(i) || settled.has(i) {
			continue
		}
		if have := p.last[i]; have == nil || failuresBefore(have) <= failuresBefore(pod) && !endTime(pod).Before(endTime(have)) {
			p.last[i] = pod
		}
	}
}

// breaksIndex reports whether there will be no other pod at the index of this one.
func breaksIndex(job *batchv1.Job, pod *corev1.Pod) bool {
	if !hasFailed(job, pod) {
		return false
	}
	j := judge(job.Spec.PodFailurePolicy, pod)
	return j.failIndex || !j.ignore && annotatedCount(pod, batchv1.JobIndexFailureCountAnnotation) >= *job.Spec.BackoffLimitPerIndex
}

// annotatedCount returns the number in an annotation; zero if there is none or it is malformed.
func annotatedCount(pod *corev1.Pod, annotation string) int32 {
	n, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int32(n)
}

// failuresBefore returns the number of pods that failed at the index before this one, including
// ignored failures.
func failuresBefore(pod *corev1.Pod) int {
	return int(annotatedCount(pod, batchv1.JobIndexFailureCountAnnotation)) + int(annotatedCount(pod, batchv1.JobIndexIgnoredFailureCountAnnotation))
}

func indexesOf(pods []*corev1.Pod) (numbers []int) {
	for _, pod := range pods {
		if i := completionIndex(pod); i != noIndex {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// ended returns the pods that determine the wait for the next one: those whose end must be counted,
// and those whose end was counted and that still exist.
func (p *jobPods) ended() (succeeded, failed []*corev1.Pod) {
	for _, pod := range p.all {
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			succeeded = append(succeeded, pod)
		case hasFailed(p.job, pod) && (tracked(pod) || pod.DeletionTimestamp == nil):
			failed = append(failed, pod)
		}
	}
	return succeeded, failed
}

// successes returns the number of all successes, counted in the status or not.
func (p *jobPods) successes() int {
	if isIndexed(p.job) {
		return p.done.count()
	}
	n := int(p.job.Status.Succeeded) + len(p.succeeded)
	if u := p.job.Status.UncountedTerminatedPods; u != nil {
		n += len(u.Succeeded)
	}
	return n
}

// failures returns the number of all failures that count, counted in the status or not.
func (p *jobPods) failures() int {
	n := int(p.job.Status.Failed)
	if u := p.job.Status.UncountedTerminatedPods; u != nil {
		n += len(u.Failed)
	}
	for _, pod := range p.failed {
		if !judge(p.job.Spec.PodFailurePolicy, pod).ignore {
			n++
		}
	}
	return n
}

// maxUncounted is the maximum number of UIDs in the status of a Job.
const maxUncounted = 500

// track counts ended pods. It moves the UIDs of released pods into the counts of s, adds
// the UIDs of pods that have ended since, and returns the pods to release once s is
// stored. decided reports that the Job is over, and lost that it failed. track then does
// not wait for terminating pods; in a failed Job they count as failures. A pod that was
// deleted because the Job has succeeded is no failure.
func (p *jobPods) track(s *batchv1.JobStatus, decided, lost bool) (release []*corev1.Pod) {
	held := make(map[types.UID]bool, len(p.all))
	for _, pod := range p.all {
		if tracked(pod) {
			held[pod.UID] = true
		}
	}
	u := s.UncountedTerminatedPods
	s.Succeeded += settle(&u.Succeeded, held)
	s.Failed += settle(&u.Failed, held)
	leaving := p.job.DeletionTimestamp != nil
	won := findJobCondition(&p.job.Status, batchv1.JobSuccessCriteriaMet) != nil
	fresh := 0
	for _, pod := range p.all {
		if !tracked(pod) || len(u.Succeeded)+len(u.Failed)+fresh >= maxUncounted {
			continue
		}
		about := p.terminating[pod.UID] != nil
		spared := won && pod.DeletionTimestamp != nil
		failed := hasFailed(p.job, pod) && !spared || decided && lost && about
		switch {
		case pod.Status.Phase == corev1.PodSucceeded:
			if isIndexed(p.job) {
				fresh++ // is in p.done, if its index makes sense
			} else if p.countable(pod) {
				u.Succeeded = append(u.Succeeded, pod.UID)
			}
		case failed && !leaving && !decided && p.last[completionIndex(pod)] == pod:
			continue // its successor, which is to carry on its count, is not there yet
		case failed:
			if p.countable(pod) && !judge(p.job.Spec.PodFailurePolicy, pod).ignore {
				u.Failed = append(u.Failed, pod.UID)
			}
		case leaving || decided && about || spared:
		default:
			continue
		}
		release = append(release, pod)
	}
	if isIndexed(p.job) {
		p.trackIndexes(s, release)
	}
	return release
}

// trackIndexes writes the completed indexes into s: the earlier ones, and those of the
// pods in release.
func (p *jobPods) trackIndexes(s *batchv1.JobStatus, release []*corev1.Pod) {
	var fresh []int
	for _, pod := range release {
		if pod.Status.Phase == corev1.PodSucceeded && p.validIndex(completionIndex(pod)) {
			fresh = append(fresh, completionIndex(pod))
		}
	}
	done := p.before.with(fresh...)
	s.CompletedIndexes, s.Succeeded = done.String(), int32(done.count())
	s.FailedIndexes = nil
	if p.job.Spec.BackoffLimitPerIndex != nil {
		broken := p.broken.String()
		s.FailedIndexes = &broken
	}
}

// settle removes the UIDs that no pod holds from list and returns their number.
func settle(list *[]types.UID, held map[types.UID]bool) int32 {
	before := len(*list)
	*list = slices.DeleteFunc(*list, func(uid types.UID) bool { return !held[uid] })
	return int32(before - len(*list))
}
