// Package warn has what kube-apiserver v1.36 warns of when an object is created or changed: fields that are
// deprecated, without an effect, or probably a mistake (kubernetes/pkg/api/pod/warnings.go and the strategies in
// kubernetes/pkg/registry). The words and their order are Kubernetes'.
package warn

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Func returns the warnings about a new object, or about a change of old.
type Func func(obj, old runtime.Object) []string

// For returns the warnings of a resource, such as deployments.apps, or of its status, services./status; nil if there are
// none.
func For(resource string) Func {
	if f := workloads[resource]; f != nil {
		return f
	}
	return objects[resource]
}

var (
	inSpec    = field.NewPath("spec", "template")
	workloads = map[string]Func{
		"pods.": func(obj, old runtime.Object) []string {
			if old != nil {
				return nil // people seldom change pods, and components often
			}
			pod := obj.(*corev1.Pod)
			return append(ofName(pod.Name, "the Pod's hostname"), ofPod(nil, &pod.Spec, pod.Annotations)...)
		},
		"podtemplates.": of(unnamed, func(t *corev1.PodTemplate) []string { return ofTemplate(field.NewPath("template"), &t.Template) }),
		"replicationcontrollers.": of(named, func(c *corev1.ReplicationController) []string {
			if c.Spec.Template == nil {
				return nil
			}
			return ofTemplate(inSpec, c.Spec.Template)
		}),
		"deployments.apps":  of(named, func(d *appsv1.Deployment) []string { return ofTemplate(inSpec, &d.Spec.Template) }),
		"replicasets.apps":  of(named, func(r *appsv1.ReplicaSet) []string { return ofTemplate(inSpec, &r.Spec.Template) }),
		"daemonsets.apps":   ofDaemonSet,
		"statefulsets.apps": ofStatefulSet,
		"jobs.batch":        of(named, func(j *batchv1.Job) []string { return ofJob(field.NewPath("spec"), &j.Spec) }),
		"cronjobs.batch":    ofCronJob,
	}
)

// Whether names of objects become those of pods.
const (
	named   = true
	unnamed = false
)

// of warns about a new object, and about one of which a change counts as a new generation.
func of[T metav1.Object](isNamed bool, about func(T) []string) Func {
	return func(obj, old runtime.Object) []string {
		now := obj.(T)
		if old == nil {
			if isNamed {
				return append(ofName(now.GetName(), "Pod names and hostnames"), about(now)...)
			}
			return about(now)
		}
		if old.(T).GetGeneration() == now.GetGeneration() {
			return nil
		}
		return about(now)
	}
}

func ofName(name, used string) []string {
	wrong := validation.IsDNS1123Label(name)
	if len(wrong) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("metadata.name: this is used in %s, which can result in surprising behavior; a DNS label is recommended: %v", used, wrong)}
}

func ofTemplate(at *field.Path, t *corev1.PodTemplateSpec) []string {
	return ofPod(at, &t.Spec, t.Annotations)
}

// ofDaemonSet warns about a template that is new or has changed.
func ofDaemonSet(obj, old runtime.Object) []string {
	template := &obj.(*appsv1.DaemonSet).Spec.Template
	if old != nil && equality.Semantic.DeepEqual(template, &old.(*appsv1.DaemonSet).Spec.Template) {
		return nil
	}
	return ofTemplate(inSpec, template)
}

var ofTemplateOfStatefulSet = of(unnamed, func(s *appsv1.StatefulSet) []string { return ofTemplate(inSpec, &s.Spec.Template) })

func ofStatefulSet(obj, old runtime.Object) []string {
	s, warnings := obj.(*appsv1.StatefulSet), ofTemplateOfStatefulSet(obj, old)
	for i := range s.Spec.VolumeClaimTemplates {
		at := field.NewPath("spec", "volumeClaimTemplates").Index(i)
		if old != nil {
			at = at.Child("Spec") // as Kubernetes has it
		}
		warnings = append(warnings, ofClaim(at, &s.Spec.VolumeClaimTemplates[i].Spec)...)
	}
	if n := s.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		warnings = append(warnings, "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended")
	}
	return warnings
}

// An indexed Job with more completions and more parallelism than these may lose track of its indexes.
const (
	manyCompletions = 100_000
	manyParallel    = 10_000
)

func ofJob(at *field.Path, s *batchv1.JobSpec) []string {
	var warnings []string
	indexed := s.CompletionMode != nil && *s.CompletionMode == batchv1.IndexedCompletion
	if indexed && s.Completions != nil && *s.Completions > manyCompletions && s.Parallelism != nil && *s.Parallelism > manyParallel {
		warnings = append(warnings, at.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, "+
			"Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(warnings, ofTemplate(at.Child("template"), &s.Template)...)
}

var ofJobOfCronJob = of(named, func(c *batchv1.CronJob) []string {
	return ofJob(field.NewPath("spec", "jobTemplate", "spec"), &c.Spec.JobTemplate.Spec)
})

func ofCronJob(obj, old runtime.Object) []string {
	warnings := ofJobOfCronJob(obj, old)
	if old != nil && strings.Contains(obj.(*batchv1.CronJob).Spec.Schedule, "TZ") {
		warnings = append(warnings, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, "+
			"see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details") // the path is Kubernetes'
	}
	return warnings
}

func ofClaim(at *field.Path, s *corev1.PersistentVolumeClaimSpec) []string {
	warnings := fractional(nil, at.Child("resources", "requests"), s.Resources.Requests, corev1.ResourceStorage)
	return fractional(warnings, at.Child("resources", "limits"), s.Resources.Limits, corev1.ResourceStorage)
}

// fractional warns of amounts that are no whole number of bytes.
func fractional(warnings []string, at *field.Path, amounts corev1.ResourceList, names ...corev1.ResourceName) []string {
	for _, name := range names {
		if value, ok := amounts[name]; ok && value.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer", at.Key(string(name)), value.String()))
		}
	}
	return warnings
}
