package autoscale

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/internal/selector"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// attempt is one look at an autoscaler. hpa is a copy, whose status is to be written.
type attempt struct {
	*Controller
	key     string
	hpa     *autoscalingv2.HorizontalPodAutoscaler
	history *history
	now     time.Time
}

// conflicts is how often a scale is written if it has changed meanwhile.
const conflicts = 5

func (a *attempt) run(ctx context.Context) error {
	before := a.hpa.Status.DeepCopy()
	err := a.scale(ctx)
	if !equality.Semantic.DeepEqual(before, &a.hpa.Status) {
		if _, failed := a.config.Writer.UpdateStatus(ctx, a.hpa); failed != nil {
			a.event(a.hpa, corev1.EventTypeWarning, "FailedUpdateStatus", "%v", failed)
			return errors.Join(err, fmt.Errorf("failed to update status for %s: %w", a.hpa.Name, failed))
		}
	}
	return err
}

func (a *attempt) scale(ctx context.Context) error {
	hpa, target := a.hpa, a.hpa.Spec.ScaleTargetRef
	scale, err := a.config.Scales.Scale(ctx, hpa.Namespace, target)
	if err != nil {
		a.event(hpa, corev1.EventTypeWarning, "FailedGetScale", "%v", err)
		a.set(autoscalingv2.AbleToScale, false, "FailedGetScale", "the HPA controller was unable to get the target's current scale: %v", err)
		return fmt.Errorf("failed to query scale subresource for %s: %w", a.reference(), err)
	}
	a.set(autoscalingv2.AbleToScale, true, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	current, in := scale.Spec.Replicas, bounds{1, hpa.Spec.MaxReplicas}
	if hpa.Spec.MinReplicas != nil {
		in.least = *hpa.Spec.MinReplicas
	}
	a.history.begin(current, a.now)
	var p proposal
	switch {
	case current == 0:
		a.set(autoscalingv2.ScalingActive, false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
	case current > in.most:
		p.replicas, p.reason = in.most, "Current number of replicas above Spec.MaxReplicas"
	case current < in.least:
		p.replicas, p.reason = in.least, "Current number of replicas below Spec.MinReplicas"
	default:
		p, err = a.propose(ctx, scale)
		if p.failed {
			a.setStatus(current, hpa.Status.DesiredReplicas, p.statuses, false)
			a.event(hpa, corev1.EventTypeWarning, "FailedComputeMetricsReplicas", "%v", err)
			return fmt.Errorf("failed to compute desired number of replicas based on listed metrics for %s: %w", a.reference(), err)
		}
		v := a.history.normalize(hpa.Spec.Behavior, current, p.replicas, in, a.config.Tuning.Stabilization, a.now)
		a.set(autoscalingv2.AbleToScale, true, v.stableReason, "%s", v.stableMessage)
		a.set(autoscalingv2.ScalingLimited, v.limited, v.limitedReason, "%s", v.limitedMessage)
		p.replicas = v.replicas
	}
	rescale := p.replicas != current
	if rescale {
		if failed := a.rescale(ctx, scale, p); failed != nil {
			a.setStatus(current, hpa.Status.DesiredReplicas, p.statuses, false)
			return failed
		}
	}
	a.setStatus(current, p.replicas, p.statuses, rescale)
	return err
}

func (a *attempt) reference() string {
	return fmt.Sprintf("%s/%s/%s", a.hpa.Spec.ScaleTargetRef.Kind, a.hpa.Namespace, a.hpa.Spec.ScaleTargetRef.Name)
}

// rescale writes the number of replicas. If the scale has changed meanwhile, it reads that again.
func (a *attempt) rescale(ctx context.Context, scale *autoscalingv1.Scale, p proposal) error {
	hpa, from := a.hpa, scale.Spec.Replicas
	var err error
	for range conflicts {
		next := scale.DeepCopy()
		next.Spec.Replicas = p.replicas
		if err = a.config.Scales.SetScale(ctx, hpa.Spec.ScaleTargetRef, next); !apierrors.IsConflict(err) {
			break
		}
		if now, failed := a.config.Scales.Scale(ctx, hpa.Namespace, hpa.Spec.ScaleTargetRef); failed == nil {
			scale = now
		}
	}
	if err != nil {
		a.event(hpa, corev1.EventTypeWarning, "FailedRescale", "New size: %d; reason: %s; error: %v", p.replicas, p.reason, err)
		a.set(autoscalingv2.AbleToScale, false, "FailedUpdateScale", "the HPA controller was unable to update the target scale: %v", err)
		return fmt.Errorf("failed to rescale %s: %w", a.reference(), err)
	}
	a.set(autoscalingv2.AbleToScale, true, "SucceededRescale", "the HPA controller was able to update the target scale to %d", p.replicas)
	a.event(hpa, corev1.EventTypeNormal, "SuccessfulRescale", "New size: %d; reason: %s", p.replicas, p.reason)
	a.history.scaled(hpa.Spec.Behavior, from, p.replicas, a.now)
	return nil
}

// pods returns the pods of the target.
func (a *attempt) pods(text string) (labels.Selector, []*corev1.Pod, error) {
	fail := func(event, reason, message, condition string) (labels.Selector, []*corev1.Pod, error) {
		a.event(a.hpa, corev1.EventTypeWarning, event, "%s", message)
		a.set(autoscalingv2.ScalingActive, false, reason, "%s", condition)
		return nil, nil, errors.New(message)
	}
	if text == "" {
		return fail("SelectorRequired", "InvalidSelector", "selector is required", "the HPA target's scale is missing a selector")
	}
	parsed, err := labels.Parse(text)
	if err != nil {
		message := fmt.Sprintf("couldn't convert selector into a corresponding internal selector object: %v", err)
		return fail("InvalidSelector", "InvalidSelector", message, message)
	}
	pods, by := a.podsOf(a.key, a.hpa.Namespace, selector.Labels(parsed))
	if len(by) > 1 {
		for i, key := range by {
			by[i] = fmt.Sprintf("{%s %s}", key[len(a.hpa.Namespace)+1:], a.hpa.Namespace)
		}
		message := fmt.Sprintf("pods by selector %v are controlled by multiple HPAs: [%s]", text, strings.Join(by, " "))
		return fail("AmbiguousSelector", "AmbiguousSelector", message, message)
	}
	return parsed, pods, nil
}

// set sets a condition.
func (a *attempt) set(of autoscalingv2.HorizontalPodAutoscalerConditionType, is bool, reason, format string, args ...any) {
	status := corev1.ConditionFalse
	if is {
		status = corev1.ConditionTrue
	}
	list := &a.hpa.Status.Conditions
	i := slices.IndexFunc(*list, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == of })
	if i < 0 {
		i = len(*list)
		*list = append(*list, autoscalingv2.HorizontalPodAutoscalerCondition{Type: of})
	}
	c := &(*list)[i]
	if c.Status != status {
		c.LastTransitionTime = metav1.NewTime(a.now)
	}
	c.Status, c.Reason, c.Message = status, reason, fmt.Sprintf(format, args...)
}

func (a *attempt) setStatus(current, desired int32, metrics []autoscalingv2.MetricStatus, scaled bool) {
	s := &a.hpa.Status
	*s = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: current, DesiredReplicas: desired, LastScaleTime: s.LastScaleTime, CurrentMetrics: metrics, Conditions: s.Conditions,
	}
	if scaled {
		s.LastScaleTime = new(metav1.NewTime(a.now))
	}
}

func sortedKeys(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}
