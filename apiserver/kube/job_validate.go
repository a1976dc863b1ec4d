package kube

import (
	"fmt"

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
	var ps problems
	p, spec := field.NewPath("spec"), &job.Spec
	checkGenerated(&ps, job)
	checkJobSpec(&ps, p, spec)
	if spec.Selector == nil {
		ps.add(field.Required(p.Child("selector"), ""))
	}
	ps.selector(p.Child("selector"), spec.Selector)
	if s, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil {
		checkSelects(&ps, p.Child("template"), s, &spec.Template)
	}
	if indexed(spec) && deref(spec.Completions) > 0 {
		// The last pod's host name is the longest.
		host := fmt.Sprintf("%s-%d", job.Name, *spec.Completions-1)
		ps.valid(len(validation.IsDNS1123Label(host)) == 0, field.NewPath("metadata", "name"), job.Name,
			"will not able to create pod with invalid DNS label: "+host)
	}
	return ps.list
}

// checkJobSpec checks what a job has and the template for one.
func checkJobSpec(ps *problems, p *field.Path, spec *batchv1.JobSpec) {
	checkJobNumbers(ps, p, spec)
	checkCompletionMode(ps, p, spec)
	if spec.PodFailurePolicy != nil {
		checkFailurePolicy(ps, p.Child("podFailurePolicy"), spec)
	}
	if spec.SuccessPolicy != nil {
		checkSuccessPolicy(ps, p.Child("successPolicy"), spec)
	}
	checkReplacement(ps, p.Child("podReplacementPolicy"), spec)
	checkTemplate(ps, p.Child("template"), &spec.Template)
	checkJobRestart(ps, p.Child("template", "spec", "restartPolicy"), spec)
}

func indexed(spec *batchv1.JobSpec) bool {
	return deref(spec.CompletionMode) == batchv1.IndexedCompletion
}

// checkGenerated requires a selector that was not written by hand to be the one
// that createJob makes.
func checkGenerated(ps *problems, job *batchv1.Job) {
	if deref(job.Spec.ManualSelector) || job.Spec.Selector == nil {
		return
	}
	ps.required(field.NewPath("metadata", "uid"), string(job.UID))
	want := jobLabels(job)
	have := job.Spec.Template.Labels
	for _, key := range sortedKeys(want) {
		at := field.NewPath("spec", "template", "metadata", "labels").Key(key)
		must := fmt.Sprintf("must be '%s'", want[key])
		if value, ok := have[key]; !ok {
			ps.add(field.Required(at, must))
		} else if value != want[key] {
			ps.add(field.Invalid(at, have, must))
		}
	}
	if s, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil {
		ps.valid(s.Matches(labels.Set(want)),
			field.NewPath("spec", "selector"), job.Spec.Selector, "`selector` not auto-generated")
	}
}

func checkJobNumbers(ps *problems, p *field.Path, spec *batchv1.JobSpec) {
	for _, f := range []struct {
		path  string
		value int64
	}{
		{"parallelism", int64(deref(spec.Parallelism))},
		{"completions", int64(deref(spec.Completions))},
		{"activeDeadlineSeconds", deref(spec.ActiveDeadlineSeconds)},
		{"backoffLimit", int64(deref(spec.BackoffLimit))},
		{"ttlSecondsAfterFinished", int64(deref(spec.TTLSecondsAfterFinished))},
		{"backoffLimitPerIndex", int64(deref(spec.BackoffLimitPerIndex))},
		{"maxFailedIndexes", int64(deref(spec.MaxFailedIndexes))},
	} {
		ps.notNegative(p.Child(f.path), f.value)
	}
	ps.present(spec.MaxFailedIndexes == nil || spec.BackoffLimitPerIndex != nil,
		p.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified")
	if spec.ManagedBy != nil {
		at := p.Child("managedBy")
		ps.all(validation.IsDomainPrefixedPath(at, *spec.ManagedBy))
		ps.atMostBytes(at, len(*spec.ManagedBy), maxManagedBy)
	}
}

func checkCompletionMode(ps *problems, p *field.Path, spec *batchv1.JobSpec) {
	if spec.CompletionMode != nil {
		oneOf(ps, p.Child("completionMode"), *spec.CompletionMode, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion)
	}
	failed, perIndex := spec.MaxFailedIndexes, spec.BackoffLimitPerIndex
	maxFailed := p.Child("maxFailedIndexes")
	if deref(spec.CompletionMode) == batchv1.NonIndexedCompletion {
		ps.valid(perIndex == nil, p.Child("backoffLimitPerIndex"), deref(perIndex), "requires indexed completion mode")
		ps.valid(failed == nil, maxFailed, deref(failed), "requires indexed completion mode")
	}
	if !indexed(spec) {
		return
	}
	ps.present(spec.Completions != nil, p.Child("completions"), "when completion mode is Indexed")
	parallelism, completions := deref(spec.Parallelism), deref(spec.Completions)
	atMost := func(p *field.Path, value, limit int32, when string) {
		ps.valid(value <= limit, p, value, fmt.Sprintf("must be less than or equal to %d%s", limit, when))
	}
	atMost(p.Child("parallelism"), parallelism, maxIndexedParallelism, " when completion mode is Indexed")
	ps.valid(spec.Completions == nil || deref(failed) <= completions,
		maxFailed, deref(failed), "must be less than or equal to completions")
	atMost(maxFailed, deref(failed), maxIndexedParallelism, "")
	if completions > manyCompletions && perIndex != nil {
		ps.present(failed != nil, maxFailed, fmt.Sprintf("must be specified when completions is above %d", manyCompletions))
		when := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
		atMost(p.Child("parallelism"), parallelism, maxWithMany, when)
		atMost(maxFailed, deref(failed), maxWithMany, when)
	}
}

func checkReplacement(ps *problems, p *field.Path, spec *batchv1.JobSpec) {
	switch policy := spec.PodReplacementPolicy; {
	case policy == nil:
	case spec.PodFailurePolicy != nil:
		oneOf(ps, p, *policy, batchv1.Failed)
	default:
		oneOf(ps, p, *policy, batchv1.Failed, batchv1.TerminatingOrFailed)
	}
}

// checkJobRestart requires pods that can end.
func checkJobRestart(ps *problems, p *field.Path, spec *batchv1.JobSpec) {
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == corev1.RestartPolicyAlways, policy == "":
		ps.add(field.Required(p, `valid values: "OnFailure", "Never"`))
	case policy == corev1.RestartPolicyNever:
	case policy == corev1.RestartPolicyOnFailure:
		ps.valid(spec.PodFailurePolicy == nil, p, policy, `only "Never" is supported when podFailurePolicy is specified`)
	default:
		oneOf(ps, p, policy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	}
}

func validateJobUpdate(job, old *batchv1.Job) field.ErrorList {
	ps := problems{list: validateJob(job)}
	p, now, before := field.NewPath("spec"), &job.Spec, &old.Spec
	if !indexed(now) {
		ps.immutable(p.Child("completions"), now.Completions, before.Completions)
	} else if now.Completions != nil && differ(now.Completions, before.Completions) {
		ps.valid(*now.Completions == deref(now.Parallelism), p.Child("completions"), now.Completions,
			"can only be modified in tandem with spec.parallelism")
	}
	ps.immutable(p.Child("selector"), now.Selector, before.Selector)
	ps.immutable(p.Child("template"), &now.Template, withPlacementOf(old, &now.Template))
	ps.immutable(p.Child("completionMode"), now.CompletionMode, before.CompletionMode)
	ps.immutable(p.Child("podFailurePolicy"), now.PodFailurePolicy, before.PodFailurePolicy)
	ps.immutable(p.Child("backoffLimitPerIndex"), now.BackoffLimitPerIndex, before.BackoffLimitPerIndex)
	ps.immutable(p.Child("managedBy"), now.ManagedBy, before.ManagedBy)
	ps.immutable(p.Child("successPolicy"), now.SuccessPolicy, before.SuccessPolicy)
	return ps.list
}

// withPlacementOf returns the template of old. Where that is suspended and has
// not run, a queue may still decide where it will: what it may set is taken from
// now.
func withPlacementOf(old *batchv1.Job, now *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	t := old.Spec.Template.DeepCopy()
	waiting := old.Status.StartTime == nil || jobIs(old, batchv1.JobSuspended)
	if !deref(old.Spec.Suspend) || !waiting || old.Status.Active > 0 {
		return t
	}
	t.Labels, t.Annotations = now.Labels, now.Annotations
	t.Spec.NodeSelector, t.Spec.Tolerations = now.Spec.NodeSelector, now.Spec.Tolerations
	t.Spec.SchedulingGates = now.Spec.SchedulingGates
	var affinity corev1.Affinity
	if t.Spec.Affinity != nil {
		affinity = *t.Spec.Affinity
	}
	affinity.NodeAffinity = nil
	if now.Spec.Affinity != nil {
		affinity.NodeAffinity = now.Spec.Affinity.NodeAffinity
	}
	t.Spec.Affinity = &affinity
	if affinity == (corev1.Affinity{}) {
		t.Spec.Affinity = nil
	}
	for i := range min(len(t.Spec.Containers), len(now.Spec.Containers)) {
		t.Spec.Containers[i].Resources = now.Spec.Containers[i].Resources
	}
	return t
}
