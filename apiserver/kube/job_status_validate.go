package kube

import (
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateJobStatus keeps a job's story consistent, whoever tells it: what is
// over stays over.
func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &job.Status
	for _, c := range []count{
		{"active", s.Active},
		{"succeeded", s.Succeeded},
		{"failed", s.Failed},
		{"ready", deref(s.Ready)},
		{"terminating", deref(s.Terminating)},
	} {
		ps.notNegative(p.Child(c.path), int64(c.value))
	}
	conditions, end := p.Child("conditions"), p.Child("completionTime")
	complete := jobIs(job, batchv1.JobComplete)
	ps.valid(!complete || !jobIs(job, batchv1.JobFailed),
		conditions, field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions")
	ps.valid(complete || s.CompletionTime == nil,
		end, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
	ps.present(!complete || s.CompletionTime != nil, end, "completionTime is required for Complete jobs")
	ps.valid(s.StartTime == nil || s.CompletionTime == nil || !s.CompletionTime.Before(s.StartTime),
		end, s.CompletionTime, "must be equal to or after `startTime`")
	for _, over := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete} {
		ps.valid(!jobIs(old, over) || jobIs(job, over),
			conditions, field.OmitValueType{}, "cannot disable the terminal "+string(over)+"=True condition")
	}
	return ps.list
}
