package podsecurity

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	"github.com/planekit/planekit/internal/invalid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// These bound the evaluation of the pods of a namespace, as in kube-apiserver.
const (
	maxPods = 3000
	maxTime = time.Second
)

// namespace refuses invalid labels, and warns about pods that violate a new standard.
func (p *Plugin) namespace(ctx context.Context, r *admission.Request) error {
	if r.Subresource != "" {
		return nil
	}
	namespace, ok := r.Object.(*corev1.Namespace)
	if !ok {
		return badNamespace(r, "failed to decode namespace")
	}
	policy, problems := PolicyOf(namespace.Labels, p.config.Defaults)
	if r.Operation == admission.Create {
		if len(problems) > 0 {
			return invalidNamespace(r, namespace, problems)
		}
		p.warnExempt(r, namespace, policy)
		return nil
	}
	old, ok := r.OldObject.(*corev1.Namespace)
	if !ok {
		return badNamespace(r, "failed to decode old namespace")
	}
	before, were := PolicyOf(old.Labels, p.config.Defaults)
	if len(problems) > 0 && !reflect.DeepEqual(problems, were) {
		return invalidNamespace(r, namespace, problems)
	}
	now, was := policy.Enforce, before.Enforce
	relaxed := now.Version == was.Version && now.Level <= was.Level
	if now.Level == Privileged || relaxed || p.warnExempt(r, namespace, policy) {
		return nil
	}
	for _, message := range p.warnings(ctx, namespace.Name, now) {
		warn(r, message)
	}
	return nil
}

func badNamespace(r *admission.Request, message string) error {
	annotate(r, errorKey, message)
	return apierrors.NewBadRequest(message)
}

func invalidNamespace(r *admission.Request, n *corev1.Namespace, problems field.ErrorList) error {
	return invalid.Object(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, n.Name, problems)
}

// warnExempt reports whether a namespace is exempt, and warns that labels which forbid something have no effect.
func (p *Plugin) warnExempt(r *admission.Request, n *corev1.Namespace, policy Policy) bool {
	if !p.exempt.namespaces[rules.NamespaceOf(r)] {
		return false
	}
	if policy.privileged() || policy.same(p.config.Defaults) {
		return true
	}
	var modes []string
	for _, mode := range []struct {
		label    string
		standard Standard
	}{{enforceLabel, policy.Enforce}, {auditLabel, policy.Audit}, {warnLabel, policy.Warn}} {
		_, level := n.Labels[mode.label]
		_, version := n.Labels[mode.label+versionSuffix]
		if mode.standard.Level != Privileged && (level || version) {
			modes = append(modes, strings.TrimPrefix(mode.label, prefix)+"="+mode.standard.String())
		}
	}
	warn(r, fmt.Sprintf("namespace %q is exempt from Pod Security, and the policy (%s) will be ignored", n.Name, strings.Join(modes, ", ")))
	return true
}

// warnings evaluates the pods of a namespace. It stops after maxPods and maxTime, and at the latest in the middle of the
// time that ctx leaves.
func (p *Plugin) warnings(ctx context.Context, namespace string, standard Standard) []string {
	limit := maxTime
	if end, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	pods, total := p.sample(namespace)
	byReasons := map[string]*violators{}
	checked := len(pods)
	for i, pod := range pods {
		if found := p.standards.Evaluate(standard, &pod.ObjectMeta, &pod.Spec); len(found) > 0 {
			reasons := found.Reasons()
			if byReasons[reasons] == nil {
				byReasons[reasons] = &violators{first: pod.Name}
			}
			byReasons[reasons].add(pod.Name)
		}
		if ctx.Err() != nil {
			checked = i + 1
			break
		}
	}
	var messages []string
	if checked < total {
		messages = append(messages, fmt.Sprintf("new PodSecurity enforce level only checked against the first %d of %d existing pods", checked, total))
	}
	if len(byReasons) == 0 {
		return messages
	}
	var lines []string
	for reasons, v := range byReasons {
		lines = append(lines, v.String()+": "+reasons)
	}
	slices.Sort(lines)
	messages = append(messages, fmt.Sprintf("existing pods in namespace %q violate the new PodSecurity enforce level %q", namespace, standard))
	return append(messages, lines...)
}

// sample returns at most maxPods pods of a namespace that are not exempt, and how many there are. One pod of each
// controller comes before others of the same one, which are likely to be alike.
func (p *Plugin) sample(namespace string) (pods []*corev1.Pod, total int) {
	var alike []*corev1.Pod
	seen := map[types.UID]bool{}
	for pod := range p.config.Pods.Get(namespace) {
		if class := pod.Spec.RuntimeClassName; class != nil && p.exempt.runtimeClasses[*class] {
			continue
		}
		total++
		if len(pods) == maxPods {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(pod)
		switch {
		case owner == nil || !seen[owner.UID]:
			pods = append(pods, pod)
		case len(alike) < maxPods:
			alike = append(alike, pod)
		}
		if owner != nil {
			seen[owner.UID] = true
		}
	}
	return append(pods, alike[:min(len(alike), maxPods-len(pods))]...), total
}

// violators counts the pods with the same violations.
type violators struct {
	first string // by name
	count int
}

func (v *violators) add(name string) {
	v.first = min(v.first, name)
	v.count++
}

func (v *violators) String() string {
	switch v.count {
	case 1:
		return v.first
	case 2:
		return v.first + " (and 1 other pod)"
	}
	return fmt.Sprintf("%s (and %d other pods)", v.first, v.count-1)
}
