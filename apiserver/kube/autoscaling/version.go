package autoscaling

import (
	"encoding/json"
	"maps"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// The annotations in which an autoscaler of v1 keeps what v1 has no field for.
const (
	keptMetrics       = "autoscaling.alpha.kubernetes.io/metrics"
	keptCurrent       = "autoscaling.alpha.kubernetes.io/current-metrics"
	keptConditions    = "autoscaling.alpha.kubernetes.io/conditions"
	keptBehavior      = "autoscaling.alpha.kubernetes.io/behavior"
	keptDownTolerance = "autoscaling.alpha.kubernetes.io/scale-down-tolerance"
	keptUpTolerance   = "autoscaling.alpha.kubernetes.io/scale-up-tolerance"
)

func dropKept(annotations map[string]string) {
	for _, key := range []string{keptMetrics, keptCurrent, keptConditions, keptBehavior, keptDownTolerance, keptUpTolerance} {
		delete(annotations, key)
	}
}

// version1 is autoscaling/v1, which knows the utilization of CPU alone.
func version1() apiserver.Version {
	return apiserver.Version{
		Name:    "v1",
		New:     func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		NewList: func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
		To: func(obj runtime.Object) (runtime.Object, error) {
			return toV2(obj.(*autoscalingv1.HorizontalPodAutoscaler)), nil
		},
		From: func(obj runtime.Object) (runtime.Object, error) { return toV1(obj.(*autoscaler)) },
		Default: func(obj runtime.Object) {
			optional.SetIfNil(&obj.(*autoscalingv1.HorizontalPodAutoscaler).Spec.MinReplicas, 1)
		},
	}
}

func isUtilizationOfCPU(m *autoscalingv2.MetricSpec) bool {
	return m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU &&
		m.Resource.Target.AverageUtilization != nil
}

// toV1 converts a, which it does not change. The result shares its parts.
func toV1(a *autoscaler) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: *a.ObjectMeta.DeepCopy(),
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	dropKept(out.Annotations)
	var metrics []autoscalingv1.MetricSpec
	for i := range a.Spec.Metrics {
		m := &a.Spec.Metrics[i]
		if !isUtilizationOfCPU(m) {
			metrics = append(metrics, metricToV1(m))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = m.Resource.Target.AverageUtilization
		}
	}
	var current []autoscalingv1.MetricStatus
	for i := range a.Status.CurrentMetrics {
		m := &a.Status.CurrentMetrics[i]
		current = append(current, currentToV1(m))
		if m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil && m.Resource.Name == corev1.ResourceCPU && m.Resource.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = m.Resource.Current.AverageUtilization
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range a.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	for _, kept := range []struct {
		key   string
		keep  bool
		value any
	}{
		{keptMetrics, len(metrics) > 0, metrics}, {keptCurrent, len(current) > 0, current},
		{keptConditions, len(conditions) > 0, conditions}, {keptBehavior, a.Spec.Behavior != nil, behaviorOf(a.Spec.Behavior)},
	} {
		if !kept.keep {
			continue
		}
		data, err := json.Marshal(kept.value)
		if err != nil {
			return nil, err
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[kept.key] = string(data)
	}
	return out, nil
}

// toV2 converts a, which it does not change. Annotations that cannot be read count as missing, as in
// kube-apiserver. The result shares parts of a.
func toV2(a *autoscalingv1.HorizontalPodAutoscaler) *autoscaler {
	out := &autoscaler{
		ObjectMeta: *a.ObjectMeta.DeepCopy(),
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(a.Spec.ScaleTargetRef),
			MinReplicas:    a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	kept := maps.Clone(out.Annotations)
	dropKept(out.Annotations)
	for _, m := range read[[]autoscalingv1.MetricSpec](kept, keptMetrics) {
		out.Spec.Metrics = append(out.Spec.Metrics, metricToV2(&m))
	}
	if percent := a.Spec.TargetCPUUtilizationPercentage; percent != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, utilizationOfCPU(*percent))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{utilizationOfCPU(defaultUtilization)}
	}
	out.Spec.Behavior = read[*keptScaling](kept, keptBehavior).behavior()
	if percent := a.Status.CurrentCPUUtilizationPercentage; percent != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{
			Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent}}}}
	}
	if current := read[[]autoscalingv1.MetricStatus](kept, keptCurrent); current != nil {
		out.Status.CurrentMetrics = nil
		for _, m := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, currentToV2(&m))
		}
	}
	for _, c := range read[[]autoscalingv1.HorizontalPodAutoscalerCondition](kept, keptConditions) {
		out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	return out
}

// read returns the value of an annotation, and zero if it is missing or broken.
func read[T any](annotations map[string]string, key string) T {
	var value, none T
	if text, ok := annotations[key]; !ok || json.Unmarshal([]byte(text), &value) != nil {
		return none
	}
	return value
}

// keptScaling is how kube-apiserver writes a behavior into an annotation: with the names of Go fields.
type keptScaling struct{ ScaleUp, ScaleDown *keptRules }

type keptRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []keptPolicy
	Tolerance                  *resource.Quantity
}

type keptPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *keptScaling {
	if b == nil {
		return nil
	}
	rules := func(r *autoscalingv2.HPAScalingRules) *keptRules {
		if r == nil {
			return nil
		}
		out := &keptRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
		for _, p := range r.Policies {
			out.Policies = append(out.Policies, keptPolicy(p))
		}
		return out
	}
	return &keptScaling{rules(b.ScaleUp), rules(b.ScaleDown)}
}

func (k *keptScaling) behavior() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	if k == nil || *k == (keptScaling{}) {
		return nil
	}
	rules := func(r *keptRules) *autoscalingv2.HPAScalingRules {
		if r == nil {
			return nil
		}
		out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
		for _, p := range r.Policies {
			out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
		}
		return out
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rules(k.ScaleUp), ScaleDown: rules(k.ScaleDown)}
}
