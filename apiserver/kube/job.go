package kube

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/planekit/planekit/apiserver"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Labels that tell a job's pods from all others, as they were named before they
// had a domain. Both forms are set.
const (
	oldControllerUIDLabel = "controller-uid"
	oldJobNameLabel       = "job-name"
)

// jobRetries is how often a job tries again, by default.
const jobRetries = 6

func jobs() apiserver.Resource {
	r := apiserver.Resource{
		Group:      batchv1.GroupName,
		Version:    "v1",
		Kind:       "Job",
		Plural:     "jobs",
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &batchv1.Job{} },
		NewList:    func() runtime.Object { return &batchv1.JobList{} },
		Strategy: strategy[*batchv1.Job]{
			complete: completeJob,
			create:   createJob,
			update: func(job, old *batchv1.Job) {
				old.Status.DeepCopyInto(&job.Status)
				job.Generation = nextGeneration(old.Generation, differ(&job.Spec, &old.Spec))
			},
			validate:       validateJob,
			validateUpdate: validateJobUpdate,
		}.erase(),
		Columns: jobColumns(),
		Fields: selectable[*batchv1.Job]{
			"status.successful": func(job *batchv1.Job) string { return strconv.Itoa(int(job.Status.Succeeded)) },
		}.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*batchv1.Job]{
				update:         func(job, old *batchv1.Job) { old.Spec.DeepCopyInto(&job.Spec) },
				validateUpdate: validateJobStatus,
			}),
		},
	}
	// batch/v1 keeps to what it did before there was a garbage collector.
	r.Strategy.GarbageCollection = metav1.DeletePropagationOrphan
	return r
}

func completeJob(job *batchv1.Job) {
	s := &job.Spec
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	setIfNil(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		setIfNil(&s.BackoffLimit, math.MaxInt32)
	}
	setIfNil(&s.BackoffLimit, jobRetries)
	if len(job.Labels) == 0 {
		// One map, as upstream has it: the labels that createJob gives the template of
		// a job without labels of its own are the job's, too.
		job.Labels = s.Template.Labels
	}
	setIfNil(&s.CompletionMode, batchv1.NonIndexedCompletion)
	setIfNil(&s.Suspend, false)
	if s.PodFailurePolicy != nil {
		setIfNil(&s.PodReplacementPolicy, batchv1.Failed)
		completeFailurePolicy(s.PodFailurePolicy)
	}
	setIfNil(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	setIfNil(&s.ManualSelector, false)
	defaultPodSpec(&s.Template.Spec)
}

func completeFailurePolicy(policy *batchv1.PodFailurePolicy) {
	if policy == nil {
		return
	}
	for i := range policy.Rules {
		on := policy.Rules[i].OnPodConditions
		for j := range on {
			setIfEmpty(&on[j].Status, corev1.ConditionTrue)
		}
	}
}

// createJob makes the selector of a job, unless its author did: it finds pods by
// the UID of the job, and so never those of another. Labels that stand in
// the way are left for validation to refuse.
func createJob(job *batchv1.Job) {
	job.Status = batchv1.JobStatus{}
	job.Generation = 1
	if deref(job.Spec.ManualSelector) {
		return
	}
	for key, value := range jobLabels(job) {
		addLabel(&job.Spec.Template.Labels, key, value)
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	addLabel(&job.Spec.Selector.MatchLabels, batchv1.ControllerUidLabel, string(job.UID))
}

func jobLabels(job *batchv1.Job) map[string]string {
	return map[string]string{
		oldJobNameLabel:            job.Name,
		batchv1.JobNameLabel:       job.Name,
		oldControllerUIDLabel:      string(job.UID),
		batchv1.ControllerUidLabel: string(job.UID),
	}
}

func addLabel(labels *map[string]string, key, value string) {
	if *labels == nil {
		*labels = map[string]string{}
	}
	if _, ok := (*labels)[key]; !ok {
		(*labels)[key] = value
	}
}

func jobColumns() []apiserver.Column {
	columns := []apiserver.Column{
		text("Status", "Status of the job.", jobStatus),
		text("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"], jobCompletions),
		passing(text("Duration", "Time required to complete the job.", jobDuration)),
		age[*batchv1.Job](),
	}
	return append(columns, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"],
		func(job *batchv1.Job) *corev1.PodTemplateSpec { return &job.Spec.Template },
		func(job *batchv1.Job) string { return metav1.FormatLabelSelector(job.Spec.Selector) })...)
}

func jobStatus(job *batchv1.Job) string {
	switch {
	case jobIs(job, batchv1.JobComplete):
		return "Complete"
	case jobIs(job, batchv1.JobFailed):
		return "Failed"
	case job.DeletionTimestamp != nil:
		return "Terminating"
	}
	for _, c := range []batchv1.JobConditionType{batchv1.JobSuspended, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet} {
		if jobIs(job, c) {
			return string(c)
		}
	}
	return "Running"
}

func jobIs(job *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func jobCompletions(job *batchv1.Job) string {
	switch {
	case job.Spec.Completions != nil:
		return fmt.Sprintf("%d/%d", job.Status.Succeeded, *job.Spec.Completions)
	case deref(job.Spec.Parallelism) > 1:
		return fmt.Sprintf("%d/1 of %d", job.Status.Succeeded, *job.Spec.Parallelism)
	}
	return fmt.Sprintf("%d/1", job.Status.Succeeded)
}

func jobDuration(job *batchv1.Job) string {
	start, end := job.Status.StartTime, job.Status.CompletionTime
	switch {
	case start == nil:
		return ""
	case end == nil:
		return duration.HumanDuration(time.Since(start.Time))
	}
	return duration.HumanDuration(end.Sub(start.Time))
}
