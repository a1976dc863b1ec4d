package job

import (
	"maps"
	"slices"
	"time"

	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/internal/podstatus"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// defaultBackoffLimit is the number of pods of a Job that may fail if the Job does not say.
const defaultBackoffLimit = 6

// jobPlan is the next step of a Job.
type jobPlan struct {
	// create is the number of pods to create. Those of an Indexed Job are for indexes.
	create  int
	indexes []int
	// last holds, by index, the failed pod that the new pod replaces.
	last map[int]*corev1.Pod
	// end holds pods to delete whose result counts, remove those whose result does not.
	end, remove []*corev1.Pod
	// status must be stored before the finalizers of the pods in release are removed.
	status  batchv1.JobStatus
	release []*corev1.Pod
	// more is set if the plan is incomplete. again is the time after which the plan changes by
	// itself; zero means never.
	more  bool
	again time.Duration
}

// verdict is the result of a Job.
type verdict struct {
	failed          bool
	reason, message string
}

// announcement returns the condition that announces the verdict while pods are active, and final
// the one that states it when none is.
func (v *verdict) announcement() batchv1.JobConditionType {
	if v.failed {
		return batchv1.JobFailureTarget
	}
	return batchv1.JobSuccessCriteriaMet
}

func (v *verdict) final() batchv1.JobConditionType {
	if v.failed {
		return batchv1.JobFailed
	}
	return batchv1.JobComplete
}

// planJob returns the next step of a Job with these pods. wait is how long the next pod has to wait
// because of failed pods.
func planJob(p *jobPods, wait time.Duration, now time.Time) jobPlan {
	job := p.job
	plan := jobPlan{status: *job.Status.DeepCopy(), last: p.last}
	s := &plan.status
	if s.UncountedTerminatedPods == nil {
		s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	suspended := optional.Value(job.Spec.Suspend, false)
	if s.StartTime == nil && !suspended {
		s.StartTime = &metav1.Time{Time: now}
	}
	outcome := p.outcome(s, now)
	switch {
	case outcome != nil:
		plan.end = slices.Concat(p.active, p.loose)
	case job.DeletionTimestamp == nil:
		p.manage(&plan, wait, now)
		if outcome = p.complete(); outcome == nil {
			setSuspended(s, suspended, now)
		}
	default:
		outcome = p.complete()
	}
	if outcome == nil {
		plan.again = loop.Sooner(plan.again, p.deadline(s, now))
	}
	plan.release = p.track(s, outcome != nil, outcome != nil && outcome.failed)
	p.number(s)
	if outcome != nil {
		quiet := len(p.active)+len(p.loose)+len(p.terminating)+len(plan.release) == 0 && !p.anyHeld()
		conclude(s, outcome, quiet, now)
	}
	return plan
}

// anyHeld reports whether a pod still has the tracking finalizer.
func (p *jobPods) anyHeld() bool { return slices.ContainsFunc(p.all, tracked) }

// outcome returns how the Job ends if that is known, also if it was announced before. It does not
// report success: complete does.
func (p *jobPods) outcome(s *batchv1.JobStatus, now time.Time) *verdict {
	job := p.job
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget} {
		if c := findJobCondition(s, kind); c != nil && c.Status == corev1.ConditionTrue {
			return &verdict{kind == batchv1.JobFailureTarget, c.Reason, c.Message}
		}
	}
	for _, pod := range p.all {
		if hasFailed(job, pod) {
			if j := judge(job.Spec.PodFailurePolicy, pod); j.failJob != "" {
				return &verdict{true, batchv1.JobReasonPodFailurePolicy, j.failJob}
			}
		}
	}
	if p.failures() > int(optional.Value(job.Spec.BackoffLimit, defaultBackoffLimit)) || p.restartedTooOften() {
		return &verdict{true, batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"}
	}
	if job.Spec.ActiveDeadlineSeconds != nil && !optional.Value(job.Spec.Suspend, false) && p.deadline(s, now) <= 0 {
		return &verdict{true, batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"}
	}
	if isIndexed(job) {
		return p.indexOutcome()
	}
	return nil
}

func (p *jobPods) indexOutcome() *verdict {
	if n := p.broken.count(); n > 0 {
		if most := p.job.Spec.MaxFailedIndexes; most != nil && n > int(*most) {
			return &verdict{true, batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes"}
		}
		if n+p.done.count() >= p.completions() {
			return &verdict{true, batchv1.JobReasonFailedIndexes, "Job has failed indexes"}
		}
	}
	if rule := enough(p.job.Spec.SuccessPolicy, p.done, p.completions()); rule != "" {
		return &verdict{false, batchv1.JobReasonSuccessPolicy, rule}
	}
	return nil
}

// restartedTooOften counts the restarts of containers instead of failed pods.
func (p *jobPods) restartedTooOften() bool {
	if p.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	var restarts int32
	for _, pod := range p.all {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			restarts += c.RestartCount
		}
	}
	return restarts >= max(optional.Value(p.job.Spec.BackoffLimit, defaultBackoffLimit), 1)
}

// deadline returns how long the Job may still be active: zero or less if the time is over, or if
// there is no limit.
func (p *jobPods) deadline(s *batchv1.JobStatus, now time.Time) time.Duration {
	if p.job.Spec.ActiveDeadlineSeconds == nil || s.StartTime == nil {
		return 0
	}
	return s.StartTime.Add(time.Duration(*p.job.Spec.ActiveDeadlineSeconds) * time.Second).Sub(now)
}

// complete returns the verdict if enough pods have succeeded and none is active. Without a number
// of completions, one success is enough.
func (p *jobPods) complete() *verdict {
	enough := p.successes() > 0
	if p.job.Spec.Completions != nil {
		enough = p.successes() >= p.completions()
	}
	if !enough || len(p.active)+len(p.loose) > 0 {
		return nil
	}
	return &verdict{false, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods"}
}

// manage plans creations and deletions until the number of active pods is right. Deletions go
// first.
func (p *jobPods) manage(plan *jobPlan, wait time.Duration, now time.Time) {
	job := p.job
	if optional.Value(job.Spec.Suspend, false) {
		plan.remove = slices.Concat(p.active, p.loose)
		return
	}
	want := int(optional.Value(job.Spec.Parallelism, 1))
	switch {
	case job.Spec.Completions != nil:
		want = max(min(want, p.completions()-p.successes()), 0)
	case p.successes() > 0:
		want = len(p.active) // with one done, the others finish and no more start
	}
	plan.remove = append(p.surplus(want), p.loose...)
	if len(plan.remove) > 0 {
		plan.remove, plan.more = plan.remove[:min(len(plan.remove), owner.Burst)], len(plan.remove) > owner.Burst
		return
	}
	missing := want - len(p.active)
	if replacesFailedOnly(job) {
		missing -= len(p.terminating)
	}
	if missing <= 0 {
		return
	}
	missing, plan.more = min(missing, owner.Burst), missing > owner.Burst
	if job.Spec.BackoffLimitPerIndex == nil && wait > 0 {
		plan.again, plan.more = wait, false
		return
	}
	plan.create = missing
	if isIndexed(job) {
		plan.indexes, plan.again = p.nextIndexes(missing, now)
		plan.create = len(plan.indexes)
	}
}

// surplus returns the active pods to remove so that want are left. Of an Indexed Job, pods with a
// duplicate or invalid index go first.
func (p *jobPods) surplus(want int) (surplus []*corev1.Pod) {
	left := slices.Clone(p.active)
	podstatus.RankForDeletion(left)
	if isIndexed(p.job) {
		at := make(map[int]bool)
		slices.Reverse(left) // the best of each index stays
		left = slices.DeleteFunc(left, func(pod *corev1.Pod) bool {
			i := completionIndex(pod)
			twice := !p.validIndex(i) || at[i]
			if twice {
				surplus = append(surplus, pod)
			}
			at[i] = true
			return twice
		})
		slices.Reverse(left)
	}
	return append(surplus, left[:max(len(left)-want, 0)]...)
}

// nextIndexes returns up to n of the lowest indexes that need a pod. With a backoff for each index
// it omits those that have to wait; if all have to, again is how long.
func (p *jobPods) nextIndexes(n int, now time.Time) (next []int, again time.Duration) {
	taken := p.done.union(p.broken).with(indexesOf(p.active)...)
	if replacesFailedOnly(p.job) {
		taken = taken.with(indexesOf(slices.Collect(maps.Values(p.terminating)))...)
	}
	for _, i := range taken.missing(n, p.completions()) {
		if last := p.last[i]; last != nil {
			if wait := endTime(last).Add(waitAfter(failuresBefore(last) + 1)).Sub(now); wait > 0 {
				again = loop.Sooner(again, wait)
				continue
			}
		}
		next = append(next, i)
	}
	return next, again
}

// number sets the counts of pods in the status.
func (p *jobPods) number(s *batchv1.JobStatus) {
	var readyPods int32
	for _, pod := range slices.Concat(p.active, p.loose) {
		if podstatus.Ready(pod) {
			readyPods++
		}
	}
	terminating := int32(len(p.terminating))
	s.Active, s.Ready, s.Terminating = int32(len(p.active)+len(p.loose)), &readyPods, &terminating
}

// acted adjusts the counts of the status to the pods that were created and deleted.
func (plan *jobPlan) acted(created int, deleted []*corev1.Pod) {
	s := &plan.status
	s.Active += int32(created - len(deleted))
	*s.Terminating += int32(len(deleted))
	for _, pod := range deleted {
		if podstatus.Ready(pod) {
			*s.Ready--
		}
	}
}

// conclude sets the condition that announces the verdict, and the verdict itself when nothing is
// left to do.
func conclude(s *batchv1.JobStatus, v *verdict, quiet bool, now time.Time) {
	setJobCondition(s, v.announcement(), corev1.ConditionTrue, v.reason, v.message, now)
	u := s.UncountedTerminatedPods
	if !quiet || len(u.Succeeded)+len(u.Failed) > 0 {
		return
	}
	setJobCondition(s, v.final(), corev1.ConditionTrue, v.reason, v.message, now)
	if !v.failed {
		s.CompletionTime = &metav1.Time{Time: now}
	}
}

// setSuspended sets whether the Job is suspended. The active time of the Job begins when it is
// resumed.
func setSuspended(s *batchv1.JobStatus, suspended bool, now time.Time) {
	if suspended {
		if setJobCondition(s, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now) {
			s.StartTime = nil
		}
	} else if findJobCondition(s, batchv1.JobSuspended) != nil &&
		setJobCondition(s, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now) {
		s.StartTime = &metav1.Time{Time: now}
	}
}

func findJobCondition(s *batchv1.JobStatus, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == kind {
			return &s.Conditions[i]
		}
	}
	return nil
}

// setJobCondition reports whether it changed anything.
func setJobCondition(s *batchv1.JobStatus, kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) bool {
	set := batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: message,
		LastProbeTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now)}
	if c := findJobCondition(s, kind); c == nil {
		s.Conditions = append(s.Conditions, set)
	} else if c.Status != status || c.Reason != reason || c.Message != message {
		*c = set
	} else {
		return false
	}
	return true
}
