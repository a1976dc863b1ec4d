package batch

import (
	"fmt"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of indexed jobs
// (https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/).
const (
	maxIndexedParallelism = 100_000
	manyCompletions       = 100_000
	maxWithMany           = 10_000
	maxManagedBy          = 63
)

func validateJob(job *batchv1.Job) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &job.Spec
	checkGenerated(&ps, job)
	checkJobSelected(&ps, p, spec)
	if indexed(spec) && optional.Deref(spec.Completions) > 0 {
		// The last pod's host name is the longest.
		host := fmt.Sprintf("%s-%d", job.Name, *spec.Completions-1)
		ps.Valid(len(validation.IsDNS1123Label(host)) == 0, field.NewPath("metadata", "name"), job.Name,
			"will not able to create pod with invalid DNS label: "+host)
	}
	return ps.List
}

// checkJobSelected checks the spec of a job, whose selector must match its template.
func checkJobSelected(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	checkJobSpec(ps, p, spec)
	if spec.Selector == nil {
		ps.Add(field.Required(p.Child("selector"), ""))
	}
	ps.Selector(p.Child("selector"), spec.Selector)
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		podspec.CheckSelects(ps, p.Child("template"), s, &spec.Template)
	}
}

// checkJobSpec checks what a job has and the template for one.
func checkJobSpec(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	checkJobNumbers(ps, p, spec)
	checkCompletionMode(ps, p, spec)
	if spec.PodFailurePolicy != nil {
		checkFailurePolicy(ps, p.Child("podFailurePolicy"), spec)
	}
	if spec.SuccessPolicy != nil {
		checkSuccessPolicy(ps, p.Child("successPolicy"), spec)
	}
	checkReplacement(ps, p.Child("podReplacementPolicy"), spec)
	podspec.CheckTemplate(ps, p.Child("template"), &spec.Template)
	checkJobRestart(ps, p.Child("template", "spec", "restartPolicy"), spec)
}

func indexed(spec *batchv1.JobSpec) bool {
	return optional.Deref(spec.CompletionMode) == batchv1.IndexedCompletion
}

// checkGenerated requires a selector that the client did not set by hand to be the one that
// createJob generates.
func checkGenerated(ps *check.Problems, job *batchv1.Job) {
	if optional.Deref(job.Spec.ManualSelector) || job.Spec.Selector == nil {
		return
	}
	ps.Required(field.NewPath("metadata", "uid"), string(job.UID))
	want := jobLabels(job)
	have := job.Spec.Template.Labels
	for _, key := range check.SortedKeys(want) {
		at := field.NewPath("spec", "template", "metadata", "labels").Key(key)
		must := fmt.Sprintf("must be '%s'", want[key])
		if value, ok := have[key]; !ok {
			ps.Add(field.Required(at, must))
		} else if value != want[key] {
			ps.Add(field.Invalid(at, have, must))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil {
		ps.Valid(s.Matches(labels.Set(want)),
			field.NewPath("spec", "selector"), job.Spec.Selector, "`selector` not auto-generated")
	}
}

func checkJobNumbers(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	for _, f := range []struct {
		path  string
		value int64
	}{
		{"parallelism", int64(optional.Deref(spec.Parallelism))},
		{"completions", int64(optional.Deref(spec.Completions))},
		{"activeDeadlineSeconds", optional.Deref(spec.ActiveDeadlineSeconds)},
		{"backoffLimit", int64(optional.Deref(spec.BackoffLimit))},
		{"ttlSecondsAfterFinished", int64(optional.Deref(spec.TTLSecondsAfterFinished))},
		{"backoffLimitPerIndex", int64(optional.Deref(spec.BackoffLimitPerIndex))},
		{"maxFailedIndexes", int64(optional.Deref(spec.MaxFailedIndexes))},
	} {
		ps.NotNegative(p.Child(f.path), f.value)
	}
	ps.Present(spec.MaxFailedIndexes == nil || spec.BackoffLimitPerIndex != nil,
		p.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	if spec.ManagedBy != nil {
		at := p.Child("managedBy")
		ps.All(validation.IsDomainPrefixedPath(at, *spec.ManagedBy))
		ps.AtMostBytes(at, len(*spec.ManagedBy), maxManagedBy)
	}
}

func checkCompletionMode(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	if spec.CompletionMode != nil {
		check.OneOf(ps, p.Child("completionMode"), *spec.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	failed, perIndex := spec.MaxFailedIndexes, spec.BackoffLimitPerIndex
	maxFailed := p.Child("maxFailedIndexes")
	if spec.CompletionMode == nil || *spec.CompletionMode == batchv1.NonIndexedCompletion {
		ps.Valid(perIndex == nil, p.Child("backoffLimitPerIndex"), optional.Deref(perIndex), "requires indexed completion mode")
		ps.Valid(failed == nil, maxFailed, optional.Deref(failed), "requires indexed completion mode")
	}
	if !indexed(spec) {
		return
	}
	ps.Present(spec.Completions != nil, p.Child("completions"), "when completion mode is Indexed")
	parallelism, completions := optional.Deref(spec.Parallelism), optional.Deref(spec.Completions)
	atMost := func(p *field.Path, value, limit int32, when string) {
		ps.Valid(value <= limit, p, value, fmt.Sprintf("must be less than or equal to %d%s", limit, when))
	}
	atMost(p.Child("parallelism"), parallelism, maxIndexedParallelism, " when completion mode is Indexed")
	ps.Valid(spec.Completions == nil || optional.Deref(failed) <= completions,
		maxFailed, optional.Deref(failed), "must be less than or equal to completions")
	atMost(maxFailed, optional.Deref(failed), maxIndexedParallelism, "")
	if completions > manyCompletions && perIndex != nil {
		ps.Present(failed != nil, maxFailed, fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
		when := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
		atMost(p.Child("parallelism"), parallelism, maxWithMany, when)
		atMost(maxFailed, optional.Deref(failed), maxWithMany, when)
	}
}

func checkReplacement(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	switch policy := spec.PodReplacementPolicy; {
	case policy == nil:
	case spec.PodFailurePolicy != nil:
		check.OneOf(ps, p, *policy, batchv1.Failed)
	default:
		check.OneOf(ps, p, *policy, batchv1.Failed, batchv1.TerminatingOrFailed)
	}
}

// checkJobRestart requires a restart policy under which pods end.
func checkJobRestart(ps *check.Problems, p *field.Path, spec *batchv1.JobSpec) {
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == corev1.RestartPolicyAlways, policy == "":
		ps.Add(field.Required(p, `valid values: "OnFailure", "Never"`))
	case policy == corev1.RestartPolicyNever:
	case policy == corev1.RestartPolicyOnFailure:
		ps.Valid(spec.PodFailurePolicy == nil, p, policy, `only "Never" is supported when podFailurePolicy is specified`)
	default:
		check.OneOf(ps, p, policy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
}

func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	ps := check.Problems{List: validateJob(job)}
	p, now, before := field.NewPath("spec"), &job.Spec, &old.Spec
	if len(ps.List) > 0 {
		checkJobSelected(&ps, p, now) // Kubernetes lists these errors twice
	}
	if !indexed(now) {
		ps.Immutable(p.Child("completions"), now.Completions, before.Completions)
	} else if now.Completions != nil && define.Differ(now.Completions, before.Completions) {
		ps.Valid(*now.Completions == optional.Deref(now.Parallelism), p.Child("completions"), now.Completions,
			"can only be modified in tandem with spec.parallelism")
	}
	ps.Immutable(p.Child("selector"), now.Selector, before.Selector)
	if waits(old) {
		ps.Immutable(p.Child("template", "spec"), &now.Template.Spec, withPlacementOf(&now.Template.Spec, &before.Template.Spec))
	} else {
		ps.Immutable(p.Child("template"), &now.Template, &before.Template)
	}
	ps.Immutable(p.Child("completionMode"), now.CompletionMode, before.CompletionMode)
	ps.Immutable(p.Child("podFailurePolicy"), now.PodFailurePolicy, before.PodFailurePolicy)
	ps.Immutable(p.Child("backoffLimitPerIndex"), now.BackoffLimitPerIndex, before.BackoffLimitPerIndex)
	ps.Immutable(p.Child("managedBy"), now.ManagedBy, before.ManagedBy)
	ps.Immutable(p.Child("successPolicy"), now.SuccessPolicy, before.SuccessPolicy)
	return ps.List
}

// waits reports whether a job is suspended and does not run, so that a queue may still decide what its pods are like and where
// they go. Metadata of their template is then free, as in Kubernetes.
func waits(job *batchv1.Job) bool {
	stopped := job.Status.StartTime == nil || jobIs(job, batchv1.JobSuspended)
	return optional.Deref(job.Spec.Suspend) && stopped && job.Status.Active == 0
}

// withPlacementOf returns the spec old, with what a queue decides taken from now.
func withPlacementOf(now, old *corev1.PodSpec) *corev1.PodSpec {
	s := old.DeepCopy()
	s.NodeSelector, s.Tolerations, s.SchedulingGates = now.NodeSelector, now.Tolerations, now.SchedulingGates
	var affinity corev1.Affinity
	if s.Affinity != nil {
		affinity = *s.Affinity
	}
	affinity.NodeAffinity = nil
	if now.Affinity != nil {
		affinity.NodeAffinity = now.Affinity.NodeAffinity
	}
	s.Affinity = &affinity
	if affinity == (corev1.Affinity{}) {
		s.Affinity = nil
	}
	takeResources(now.Containers, s.Containers)
	takeResources(now.InitContainers, s.InitContainers)
	return s
}

// takeResources sets the resources of old containers where those of now are the same otherwise.
func takeResources(now, old []corev1.Container) {
	if len(now) != len(old) {
		return
	}
	for i := range old {
		if old[i].Name == now[i].Name {
			old[i].Resources = now[i].Resources
		}
	}
}

// validateJobStatus keeps the status consistent for every client: a finished job stays finished.
func validateJobStatus(job, old *batchv1.Job) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &job.Status
	for _, c := range []check.Count{
		{Path: "active", Value: s.Active},
		{Path: "succeeded", Value: s.Succeeded},
		{Path: "failed", Value: s.Failed},
		{Path: "ready", Value: optional.Deref(s.Ready)},
		{Path: "terminating", Value: optional.Deref(s.Terminating)},
	} {
		ps.NotNegative(p.Child(c.Path), int64(c.Value))
	}
	conditions, end := p.Child("conditions"), p.Child("completionTime")
	complete := jobIs(job, batchv1.JobComplete)
	ps.Valid(!complete || !jobIs(job, batchv1.JobFailed),
		conditions, field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions")
	ps.Valid(complete || s.CompletionTime == nil,
		end, s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
	ps.Present(!complete || s.CompletionTime != nil, end, "completionTime is required for Complete jobs")
	ps.Valid(s.StartTime == nil || s.CompletionTime == nil || !s.CompletionTime.Before(s.StartTime),
		end, s.CompletionTime, "must be equal to or after `startTime`")
	for _, over := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete} {
		ps.Valid(!jobIs(old, over) || jobIs(job, over),
			conditions, field.OmitValueType{}, "cannot disable the terminal "+string(over)+"=True condition")
	}
	return ps.List
}
