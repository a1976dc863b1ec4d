package kube

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxCronJobName leaves room for what the names of its jobs add.
const maxCronJobName = 52

func cronJobs() apiserver.Resource {
	return apiserver.Resource{
		Group:      batchv1.GroupName,
		Version:    "v1",
		Kind:       "CronJob",
		Plural:     "cronjobs",
		ShortNames: []string{"cj"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &batchv1.CronJob{} },
		NewList:    func() runtime.Object { return &batchv1.CronJobList{} },
		Strategy: strategy[*batchv1.CronJob]{
			complete: completeCronJob,
			create: func(c *batchv1.CronJob) {
				c.Status = batchv1.CronJobStatus{}
				c.Generation = 1
			},
			update: func(c, old *batchv1.CronJob) {
				old.Status.DeepCopyInto(&c.Status)
				c.Generation = nextGeneration(old.Generation, differ(&c.Spec, &old.Spec))
			},
			validate: func(c *batchv1.CronJob) field.ErrorList {
				ps := problems{list: validateCronJob(c, nil)}
				ps.valid(len(c.Name) <= maxCronJobName, field.NewPath("metadata", "name"), c.Name,
					fmt.Sprintf("must be no more than %d characters", maxCronJobName))
				return ps.list
			},
			validateUpdate: validateCronJob,
		}.erase(),
		Columns: cronJobColumns(),
		Subresources: []apiserver.Subresource{
			status(strategy[*batchv1.CronJob]{
				update:         func(c, old *batchv1.CronJob) { old.Spec.DeepCopyInto(&c.Spec) },
				validateUpdate: func(*batchv1.CronJob, *batchv1.CronJob) field.ErrorList { return nil },
			}),
		},
	}
}

func completeCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	setIfEmpty(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	setIfNil(&s.Suspend, false)
	setIfNil(&s.SuccessfulJobsHistoryLimit, 3)
	setIfNil(&s.FailedJobsHistoryLimit, 1)
	completeFailurePolicy(s.JobTemplate.Spec.PodFailurePolicy)
	defaultPodSpec(&s.JobTemplate.Spec.Template.Spec)
}

func cronJobColumns() []apiserver.Column {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		text("Schedule", spec["schedule"], func(c *batchv1.CronJob) string { return c.Spec.Schedule }),
		text("Timezone", spec["timeZone"], func(c *batchv1.CronJob) string {
			if c.Spec.TimeZone == nil {
				return none
			}
			return *c.Spec.TimeZone
		}),
		text("Suspend", spec["suspend"], func(c *batchv1.CronJob) string { return boolText(c.Spec.Suspend) }),
		number("Active", status["active"], func(c *batchv1.CronJob) int64 { return int64(len(c.Status.Active)) }),
		passing(text("Last Schedule", status["lastScheduleTime"], func(c *batchv1.CronJob) string {
			if c.Status.LastScheduleTime == nil {
				return none
			}
			return since(c.Status.LastScheduleTime.Time)
		})),
		age[*batchv1.CronJob](),
	}
	return append(columns, templateColumns(batchv1.JobSpec{}.SwaggerDoc()["selector"],
		func(c *batchv1.CronJob) *corev1.PodTemplateSpec { return &c.Spec.JobTemplate.Spec.Template },
		func(c *batchv1.CronJob) string { return metav1.FormatLabelSelector(c.Spec.JobTemplate.Spec.Selector) })...)
}

// boolText writes a bool in Python's manner, as kubectl has it since long ago.
func boolText(b *bool) string {
	switch {
	case b == nil:
		return "<unset>"
	case *b:
		return "True"
	}
	return "False"
}

func validateCronJob(c, old *batchv1.CronJob) field.ErrorList {
	var ps problems
	p, spec := field.NewPath("spec"), &c.Spec
	zoned := old != nil && strings.Contains(old.Spec.Schedule, "TZ")
	if ps.required(p.Child("schedule"), spec.Schedule) {
		checkSchedule(&ps, p.Child("schedule"), spec, zoned)
	}
	ps.notNegative(p.Child("startingDeadlineSeconds"), deref(spec.StartingDeadlineSeconds))
	if spec.TimeZone != nil && (old == nil || differ(spec.TimeZone, old.Spec.TimeZone)) {
		checkTimeZone(&ps, p.Child("timeZone"), *spec.TimeZone)
	}
	someOf(&ps, p.Child("concurrencyPolicy"), spec.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	job, at := &spec.JobTemplate.Spec, p.Child("jobTemplate", "spec")
	checkJobSpec(&ps, at, job)
	ps.valid(job.Selector == nil, at.Child("selector"), job.Selector, "`selector` will be auto-generated")
	if deref(job.ManualSelector) {
		ps.add(field.NotSupported(at.Child("manualSelector"), job.ManualSelector, []string{"nil", "false"}))
	}
	ps.notNegative(p.Child("successfulJobsHistoryLimit"), int64(deref(spec.SuccessfulJobsHistoryLimit)))
	ps.notNegative(p.Child("failedJobsHistoryLimit"), int64(deref(spec.FailedJobsHistoryLimit)))
	return ps.list
}

// checkSchedule lets a time zone stay in the schedule where it was, though it has
// a field today.
func checkSchedule(ps *problems, p *field.Path, spec *batchv1.CronJobSpec, zoned bool) {
	if err := parseSchedule(spec.Schedule); err != nil {
		ps.add(field.Invalid(p, spec.Schedule, err.Error()))
	}
	if !strings.Contains(spec.Schedule, "TZ") {
		return
	}
	ps.valid(zoned, p, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	ps.valid(!zoned || spec.TimeZone == nil, p, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
}

// zonePart is a part of the name of a time zone, which becomes a path.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+-]{1,14}$`)

func checkTimeZone(ps *problems, p *field.Path, zone string) {
	if zone == "" {
		ps.add(field.Invalid(p, zone, "timeZone must be nil or non-empty string"))
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			ps.add(field.Invalid(p, zone, "unknown time zone "+zone))
			return
		}
	}
	ps.valid(!strings.EqualFold(zone, "Local"), p, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	if _, err := time.LoadLocation(zone); err != nil {
		ps.add(field.Invalid(p, zone, err.Error()))
	}
}
