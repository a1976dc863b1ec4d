package batch

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxCronJobName leaves room for what the names of its jobs add.
const maxCronJobName = 52

// CronJobs returns the resource of the kind CronJob.
func CronJobs() apiserver.Resource {
	return apiserver.For(kinds.CronJobs, apiserver.Resource{
		Strategy: define.Strategy[*batchv1.CronJob]{
			Counted: func(c *batchv1.CronJob) any { return &c.Spec },
			Default: completeCronJob,
			Create:  func(c *batchv1.CronJob) { c.Status = batchv1.CronJobStatus{} },
			Update:  func(c, old *batchv1.CronJob) { old.Status.DeepCopyInto(&c.Status) },
			Validate: func(c *batchv1.CronJob) field.ErrorList {
				ps := check.Problems{List: validateCronJob(c, nil)}
				ps.Valid(len(c.Name) <= maxCronJobName, field.NewPath("metadata", "name"), c.Name,
					fmt.Sprintf("must be no more than %d characters", maxCronJobName))
				return ps.List
			},
			ValidateUpdate: validateCronJob,
		}.Erase(),
		Columns: cronJobColumns(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*batchv1.CronJob]{
				Update:         func(c, old *batchv1.CronJob) { old.Spec.DeepCopyInto(&c.Spec) },
				ValidateUpdate: func(*batchv1.CronJob, *batchv1.CronJob) field.ErrorList { return nil },
			}),
		},
	})
}

func completeCronJob(c *batchv1.CronJob) {
	s := &c.Spec
	optional.SetIfEmpty(&s.ConcurrencyPolicy, batchv1.AllowConcurrent)
	optional.SetIfNil(&s.Suspend, false)
	optional.SetIfNil(&s.SuccessfulJobsHistoryLimit, 3)
	optional.SetIfNil(&s.FailedJobsHistoryLimit, 1)
	completeFailurePolicy(s.JobTemplate.Spec.PodFailurePolicy)
	podspec.DefaultTemplate(&s.JobTemplate.Spec.Template)
}

func cronJobColumns() []apiserver.Column {
	spec, status := batchv1.CronJobSpec{}.SwaggerDoc(), batchv1.CronJobStatus{}.SwaggerDoc()
	columns := []apiserver.Column{
		column.Text("Schedule", spec["schedule"], func(c *batchv1.CronJob) string { return c.Spec.Schedule }),
		column.Text("Timezone", spec["timeZone"], func(c *batchv1.CronJob) string {
			if c.Spec.TimeZone == nil {
				return column.None
			}
			return *c.Spec.TimeZone
		}),
		column.Text("Suspend", spec["suspend"], func(c *batchv1.CronJob) string { return boolText(c.Spec.Suspend) }),
		column.Number("Active", status["active"], func(c *batchv1.CronJob) int64 { return int64(len(c.Status.Active)) }),
		column.TimeDependent(column.Text("Last Schedule", status["lastScheduleTime"], func(c *batchv1.CronJob) string {
			if c.Status.LastScheduleTime == nil {
				return column.None
			}
			return column.Since(c.Status.LastScheduleTime.Time)
		})),
		column.Age[*batchv1.CronJob](),
	}
	return append(columns, column.PodTemplate(batchv1.JobSpec{}.SwaggerDoc()["selector"],
		func(c *batchv1.CronJob) *corev1.PodTemplateSpec { return &c.Spec.JobTemplate.Spec.Template },
		func(c *batchv1.CronJob) string { return metav1.FormatLabelSelector(c.Spec.JobTemplate.Spec.Selector) })...)
}

// boolText formats a bool as kubectl does: "True" or "False".
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
	var ps check.Problems
	p, spec := field.NewPath("spec"), &c.Spec
	zoned := old != nil && strings.Contains(old.Spec.Schedule, "TZ")
	if ps.Required(p.Child("schedule"), spec.Schedule) {
		checkSchedule(&ps, p.Child("schedule"), spec, zoned)
	}
	ps.NotNegative(p.Child("startingDeadlineSeconds"), optional.Deref(spec.StartingDeadlineSeconds))
	if spec.TimeZone != nil && (old == nil || define.Differ(spec.TimeZone, old.Spec.TimeZone)) {
		checkTimeZone(&ps, p.Child("timeZone"), *spec.TimeZone)
	}
	check.RequiredOneOf(&ps, p.Child("concurrencyPolicy"), spec.ConcurrencyPolicy,
		batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)
	job, at := &spec.JobTemplate.Spec, p.Child("jobTemplate", "spec")
	checkJobSpec(&ps, at, job)
	ps.Valid(job.Selector == nil, at.Child("selector"), job.Selector, "`selector` will be auto-generated")
	if optional.Deref(job.ManualSelector) {
		ps.Add(field.NotSupported(at.Child("manualSelector"), job.ManualSelector, []string{"nil", "false"}))
	}
	ps.NotNegative(p.Child("successfulJobsHistoryLimit"), int64(optional.Deref(spec.SuccessfulJobsHistoryLimit)))
	ps.NotNegative(p.Child("failedJobsHistoryLimit"), int64(optional.Deref(spec.FailedJobsHistoryLimit)))
	return ps.List
}

// checkSchedule allows a time zone in the schedule only if the old object has one there; new
// objects use the field.
func checkSchedule(ps *check.Problems, p *field.Path, spec *batchv1.CronJobSpec, zoned bool) {
	if err := parseSchedule(spec.Schedule); err != nil {
		ps.Add(field.Invalid(p, spec.Schedule, err.Error()))
	}
	if !strings.Contains(spec.Schedule, "TZ") {
		return
	}
	ps.Valid(zoned, p, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")
	ps.Valid(!zoned || spec.TimeZone == nil, p, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
}

// zonePart is a part of the name of a time zone, which becomes a path.
var zonePart = regexp.MustCompile(`^[A-Za-z._0-9+-]{1,14}$`)

func checkTimeZone(ps *check.Problems, p *field.Path, zone string) {
	if zone == "" {
		ps.Add(field.Invalid(p, zone, "timeZone must be nil or non-empty string"))
		return
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			ps.Add(field.Invalid(p, zone, "unknown time zone "+zone))
			return
		}
	}
	ps.Valid(!strings.EqualFold(zone, "Local"), p, zone, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones")
	if _, err := time.LoadLocation(zone); err != nil {
		ps.Add(field.Invalid(p, zone, err.Error()))
	}
}
