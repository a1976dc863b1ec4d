package core

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/internal/invalid"
	"github.com/planekit/planekit/internal/selector"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	budgets = "poddisruptionbudgets"
	// maxDisrupted bounds how many evictions a budget waits to see happen.
	maxDisrupted = 2000
	// busySeconds is when to ask again of a budget that is being computed.
	busySeconds = 10

	evictionRefused = "Cannot evict pod as it would violate the pod's disruption budget."
)

// eviction deletes a pod if its disruption budget allows that.
func eviction() apiserver.Subresource {
	return apiserver.Deletion{
		Name:    "eviction",
		Group:   policyv1.GroupName,
		Version: "v1",
		Older:   []string{"v1beta1"},
		Kind:    "Eviction",
		New:     func() runtime.Object { return &policyv1.Eviction{} },
		Delete: func(ctx context.Context, parent, body runtime.Object, others apiserver.Namespace) (*metav1.DeleteOptions, error) {
			return evict(ctx, parent.(*corev1.Pod), body.(*policyv1.Eviction), others)
		},
	}
}

// evict charges the budget of pod if it has to, marks pod as evicted, and returns the options of
// the deletion. After a conflict nothing is charged.
func evict(ctx context.Context, pod *corev1.Pod, e *policyv1.Eviction, others apiserver.Namespace) (*metav1.DeleteOptions, error) {
	if e.Name != pod.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	o := &metav1.DeleteOptions{}
	if e.DeleteOptions != nil {
		o = e.DeleteOptions.DeepCopy()
	}
	if optional.Deref(o.IgnoreStoreReadErrorWithClusterBreakingPotential) {
		at := field.NewPath("deleteOptions", "ignoreStoreReadErrorWithClusterBreakingPotential")
		return nil, invalid.Object(policyv1.SchemeGroupVersion.WithKind("Eviction").GroupKind(), e.Name, field.ErrorList{
			field.Invalid(at, true, "can not be set for pod eviction, try after removing the option"),
		})
	}
	if errs := metavalidation.ValidateDeleteOptions(o); len(errs) > 0 {
		return nil, invalid.Object(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", errs)
	}
	if len(o.DryRun) > 0 {
		others = dryRun{others}
	}
	if !preconditionsHold(pod, o.Preconditions) {
		return o, nil // the deletion fails, so that no disruption is charged
	}
	if finished(pod) || pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil {
		return markEvicted(ctx, pod, requireUnchanged(o, pod), others)
	}
	budget, err := budgetOf(ctx, pod, others)
	if err != nil {
		return nil, err
	}
	if budget == nil {
		return markEvicted(ctx, pod, o, others)
	}
	if !isTrue(pod, corev1.PodReady) {
		always := optional.Deref(budget.Spec.UnhealthyPodEvictionPolicy) == policyv1.AlwaysAllow
		if s := &budget.Status; always || s.DesiredHealthy > 0 && s.CurrentHealthy >= s.DesiredHealthy {
			return markEvicted(ctx, pod, requireUnchanged(o, pod), others) // it is not among the healthy that are counted
		}
	}
	if err := charge(ctx, pod, budget, others); err != nil {
		return nil, err
	}
	return markEvicted(ctx, pod, o, others)
}

// dryRun reads other objects and drops what is written to them.
type dryRun struct{ apiserver.Namespace }

func (dryRun) Update(context.Context, string, string, runtime.Object) error { return nil }

func preconditionsHold(pod *corev1.Pod, p *metav1.Preconditions) bool {
	return p == nil || (p.UID == nil || *p.UID == pod.UID) && (p.ResourceVersion == nil || *p.ResourceVersion == pod.ResourceVersion)
}

// requireUnchanged makes the deletion fail if the pod has changed since the decision: it may have
// become ready.
func requireUnchanged(o *metav1.DeleteOptions, pod *corev1.Pod) *metav1.DeleteOptions {
	if o.Preconditions == nil {
		o.Preconditions = &metav1.Preconditions{}
	}
	if o.Preconditions.ResourceVersion == nil {
		o.Preconditions.ResourceVersion = &pod.ResourceVersion
	}
	return o
}

// markEvicted sets the condition DisruptionTarget of pod and returns o for the changed pod. It
// reads a pod that has changed again, unless o requires the pod of the decision.
func markEvicted(ctx context.Context, pod *corev1.Pod, o *metav1.DeleteOptions, others apiserver.Namespace) (*metav1.DeleteOptions, error) {
	asSeen := o.Preconditions != nil && o.Preconditions.ResourceVersion != nil
	for {
		marked := pod.DeepCopy()
		setEvicted(&marked.Status)
		err := others.Update(ctx, "", "pods", marked)
		switch {
		case err == nil && asSeen:
			o.Preconditions.ResourceVersion = &marked.ResourceVersion
			return o, nil
		case err == nil:
			return o, nil
		case asSeen || !apierrors.IsConflict(err):
			return nil, err
		}
		now, err := others.Get(ctx, "", "pods", pod.Name)
		if err != nil {
			return nil, err
		}
		if now.(*corev1.Pod).UID != pod.UID {
			return nil, apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
		}
		pod = now.(*corev1.Pod)
	}
}

func setEvicted(s *corev1.PodStatus) {
	set := corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
	}
	at := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == set.Type })
	if at < 0 {
		s.Conditions = append(s.Conditions, set)
		return
	}
	if was := s.Conditions[at]; was.Status == set.Status {
		set.LastTransitionTime = was.LastTransitionTime
	}
	s.Conditions[at] = set
}

func budgetOf(ctx context.Context, pod *corev1.Pod, others apiserver.Namespace) (*policyv1.PodDisruptionBudget, error) {
	all, err := others.List(ctx, policyv1.GroupName, budgets)
	if err != nil {
		return nil, err
	}
	var found *policyv1.PodDisruptionBudget
	for _, obj := range all {
		b := obj.(*policyv1.PodDisruptionBudget)
		if !selector.Matches(b.Spec.Selector, pod.Labels) {
			continue
		}
		if found != nil {
			//lint:ignore ST1005 clients know the text in this form
			return nil, apierrors.NewInternalError(errors.New("This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."))
		}
		found = b
	}
	return found, nil
}

// charge takes a disruption from the budget and names the pod in disruptedPods, where the
// controller of the budget sees that it is about to end. After a conflict it decides again by the
// new budget.
func charge(ctx context.Context, pod *corev1.Pod, b *policyv1.PodDisruptionBudget, others apiserver.Namespace) error {
	for {
		if err := checkBudget(b); err != nil {
			return err
		}
		b = b.DeepCopy()
		b.Status.DisruptionsAllowed--
		if b.Status.DisruptionsAllowed == 0 {
			meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
				Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
				Reason: policyv1.InsufficientPodsReason, ObservedGeneration: b.Status.ObservedGeneration,
			})
		}
		if b.Status.DisruptedPods == nil {
			b.Status.DisruptedPods = map[string]metav1.Time{}
		}
		b.Status.DisruptedPods[pod.Name] = metav1.Now()
		err := others.Update(ctx, policyv1.GroupName, budgets, b)
		if !apierrors.IsConflict(err) {
			return err
		}
		if b, err = budgetOf(ctx, pod, others); err != nil || b == nil {
			return err
		}
	}
}

// checkBudget returns an error if the budget allows no disruption now.
func checkBudget(b *policyv1.PodDisruptionBudget) error {
	s := &b.Status
	resource := schema.GroupResource{Group: policyv1.GroupName, Resource: "poddisruptionbudget"}
	switch {
	case s.ObservedGeneration < b.Generation:
		return tooMany(busySeconds, fmt.Sprintf("The disruption budget %s is still being processed by the server.", b.Name))
	case s.DisruptionsAllowed < 0:
		return apierrors.NewForbidden(resource, b.Name, errors.New("pdb disruptions allowed is negative"))
	case len(s.DisruptedPods) > maxDisrupted:
		return apierrors.NewForbidden(resource, b.Name, errors.New("DisruptedPods map too big - too many evictions not confirmed by PDB controller"))
	case s.DisruptionsAllowed > 0:
		return nil
	}
	text := fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
	c := meta.FindStatusCondition(s.Conditions, policyv1.DisruptionAllowedCondition)
	explained := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case explained && c.Reason == policyv1.SyncFailedReason:
		text += " because it failed sync: " + c.Message
	case s.CurrentHealthy <= s.DesiredHealthy:
		text = fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, s.DesiredHealthy, s.CurrentHealthy)
	case explained:
		text += fmt.Sprintf(" (%s): %s", c.Reason, c.Message)
	}
	return tooMany(0, text)
}

func tooMany(seconds int, cause string) error {
	err := apierrors.NewTooManyRequests(evictionRefused, seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
