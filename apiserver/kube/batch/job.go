package batch

import (
	"fmt"
	"maps"
	"math"
	"strconv"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Labels that tell a job's pods from all others, as they were named before they
// had a domain. Both forms are set.
const (
	oldControllerUIDLabel = "controller-uid"
	oldJobNameLabel       = "job-name"
)

// jobRetries is the default of spec.backoffLimit.
const jobRetries = 6

// Jobs returns the resource of the kind Job.
func Jobs() apiserver.Resource {
	r := apiserver.For(kinds.Jobs, apiserver.Resource{
		Strategy: define.Strategy[*batchv1.Job]{
			Counted:        func(job *batchv1.Job) any { return &job.Spec },
			Default:        completeJob,
			Create:         createJob,
			Update:         func(job, old *batchv1.Job) { old.Status.DeepCopyInto(&job.Status) },
			Validate:       validateJob,
			ValidateUpdate: validateJobUpdate,
		}.Erase(),
		Columns: jobColumns(),
		Fields: define.Fields[*batchv1.Job]{
			"status.successful": func(job *batchv1.Job) string { return strconv.Itoa(int(job.Status.Succeeded)) },
		}.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*batchv1.Job]{
				Update:         func(job, old *batchv1.Job) { old.Spec.DeepCopyInto(&job.Spec) },
				ValidateUpdate: validateJobStatus,
			}),
		},
	})
	// batch/v1 keeps to what it did before there was a garbage collector.
	r.Strategy.GarbageCollection = metav1.DeletePropagationOrphan
	r.Strategy.DeleteWarning = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"
	return r
}

func completeJob(job *batchv1.Job) {
	s := &job.Spec
	if s.Completions == nil && s.Parallelism == nil {
		s.Completions = new(int32(1))
	}
	optional.SetIfNil(&s.Parallelism, 1)
	if s.BackoffLimitPerIndex != nil {
		optional.SetIfNil(&s.BackoffLimit, math.MaxInt32)
	}
	optional.SetIfNil(&s.BackoffLimit, jobRetries)
	if len(job.Labels) == 0 && s.Template.Labels != nil {
		// One map, as upstream has it: the labels that createJob gives the template of
		// a job without labels of its own are the job's, too.
		job.Labels = s.Template.Labels
	}
	optional.SetIfNil(&s.CompletionMode, batchv1.NonIndexedCompletion)
	optional.SetIfNil(&s.Suspend, false)
	if s.PodFailurePolicy != nil {
		optional.SetIfNil(&s.PodReplacementPolicy, batchv1.Failed)
		completeFailurePolicy(s.PodFailurePolicy)
	}
	optional.SetIfNil(&s.PodReplacementPolicy, batchv1.TerminatingOrFailed)
	optional.SetIfNil(&s.ManualSelector, false)
	podspec.DefaultTemplate(&s.Template)
}

func completeFailurePolicy(policy *batchv1.PodFailurePolicy) {
	if policy == nil {
		return
	}
	for i := range policy.Rules {
		on := policy.Rules[i].OnPodConditions
		for j := range on {
			optional.SetIfEmpty(&on[j].Status, corev1.ConditionTrue)
		}
	}
}

// createJob generates the selector of a job, unless the client sets it by hand. It selects pods by
// the UID of the job, and so never those of another job. Validation refuses labels that conflict
// with it.
func createJob(job *batchv1.Job) {
	job.Status = batchv1.JobStatus{}
	if optional.Deref(job.Spec.ManualSelector) {
		return
	}
	for key, value := range jobLabels(job) {
		addLabel(&job.Spec.Template.Labels, key, value)
	}
	if len(job.Labels) == 0 { // as it is defaulted when it is read again
		job.Labels = maps.Clone(job.Spec.Template.Labels)
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
		column.Text("Status", "Status of the job.", jobStatus),
		column.Text("Completions", batchv1.JobStatus{}.SwaggerDoc()["succeeded"], jobCompletions),
		column.TimeDependent(column.Text("Duration", "Time required to complete the job.", jobDuration)),
		column.Age[*batchv1.Job](),
	}
	return append(columns, column.PodTemplate(batchv1.JobSpec{}.SwaggerDoc()["selector"],
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
	case optional.Deref(job.Spec.Parallelism) > 1:
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
