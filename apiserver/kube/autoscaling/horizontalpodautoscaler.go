package autoscaling

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type autoscaler = autoscalingv2.HorizontalPodAutoscaler

// defaultUtilization is the target of an autoscaler without metrics, in percent of the requested CPU.
const defaultUtilization = 80

// HorizontalPodAutoscalers returns the resource of the kind HorizontalPodAutoscaler.
func HorizontalPodAutoscalers() apiserver.Resource {
	spec, state := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return apiserver.For(kinds.HorizontalPodAutoscalers, apiserver.Resource{
		Versions: []apiserver.Version{version1()},
		Strategy: define.Strategy[*autoscaler]{
			Default:        complete,
			Create:         func(a *autoscaler) { a.Status = autoscalingv2.HorizontalPodAutoscalerStatus{} },
			Update:         func(a, old *autoscaler) { old.Status.DeepCopyInto(&a.Status) },
			Validate:       func(a *autoscaler) field.ErrorList { return validate(a, nil) },
			ValidateUpdate: validate,
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Reference", spec["scaleTargetRef"], func(a *autoscaler) string {
				return a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name
			}),
			column.Text("Targets", spec["metrics"], func(a *autoscaler) string { return targets(a.Spec.Metrics, a.Status.CurrentMetrics) }),
			column.Text("MinPods", spec["minReplicas"], func(a *autoscaler) string {
				if a.Spec.MinReplicas == nil {
					return "<unset>"
				}
				return strconv.Itoa(int(*a.Spec.MinReplicas))
			}),
			column.Count("MaxPods", spec["maxReplicas"], func(a *autoscaler) int32 { return a.Spec.MaxReplicas }),
			column.Count("Replicas", state["currentReplicas"], func(a *autoscaler) int32 { return a.Status.CurrentReplicas }),
			column.Age[*autoscaler](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*autoscaler]{
				Update:         func(a, old *autoscaler) { old.Spec.DeepCopyInto(&a.Spec) },
				ValidateUpdate: func(a, _ *autoscaler) field.ErrorList { return validateStatus(a) },
			}),
		},
	})
}

// complete sets defaults, and removes the annotations in which v1 keeps what it has no field for.
func complete(a *autoscaler) {
	dropKept(a.Annotations)
	optional.SetIfNil(&a.Spec.MinReplicas, 1)
	if len(a.Spec.Metrics) == 0 {
		a.Spec.Metrics = []autoscalingv2.MetricSpec{utilizationOfCPU(defaultUtilization)}
	}
	if b := a.Spec.Behavior; b != nil {
		percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
		completeRules(&b.ScaleUp, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}, percent)
		optional.SetIfNil(&b.ScaleUp.StabilizationWindowSeconds, 0)
		completeRules(&b.ScaleDown, percent)
	}
}

func completeRules(rules **autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	optional.SetIfNil(rules, autoscalingv2.HPAScalingRules{})
	optional.SetIfNil(&(*rules).SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if (*rules).Policies == nil {
		(*rules).Policies = policies
	}
}

func utilizationOfCPU(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name:   corev1.ResourceCPU,
		Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
	}}
}

// shownTargets limits the metrics of a table.
const shownTargets = 2

// targets returns the current values of metrics and their targets.
func targets(specs []autoscalingv2.MetricSpec, current []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return column.None
	}
	var list []string
	for i := range specs[:min(len(specs), shownTargets)] {
		var now autoscalingv2.MetricStatus
		if i < len(current) {
			now = current[i]
		}
		list = append(list, target(&specs[i], &now))
	}
	text := strings.Join(list, ", ")
	if more := len(specs) - shownTargets; more > 0 {
		text += fmt.Sprintf(" + %d more...", more)
	}
	return text
}

func target(spec *autoscalingv2.MetricSpec, now *autoscalingv2.MetricStatus) string {
	switch {
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		return valueTarget(spec.External.Target, currentOf(now.External, func(s *autoscalingv2.ExternalMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current }))
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		return valueTarget(spec.Object.Target, currentOf(now.Object, func(s *autoscalingv2.ObjectMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current }))
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		value := column.Unknown
		if now.Pods != nil {
			value = now.Pods.Current.AverageValue.String()
		}
		return value + "/" + spec.Pods.Target.AverageValue.String()
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		return resourceTarget(spec.Resource.Name, spec.Resource.Target,
			currentOf(now.Resource, func(s *autoscalingv2.ResourceMetricStatus) *autoscalingv2.MetricValueStatus { return &s.Current }))
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		return resourceTarget(spec.ContainerResource.Name, spec.ContainerResource.Target,
			currentOf(now.ContainerResource, func(s *autoscalingv2.ContainerResourceMetricStatus) *autoscalingv2.MetricValueStatus {
				return &s.Current
			}))
	}
	return "<unknown type>"
}

// currentOf returns the value of a status, nil if there is no status.
func currentOf[S any](status *S, value func(*S) *autoscalingv2.MetricValueStatus) *autoscalingv2.MetricValueStatus {
	if status == nil {
		return nil
	}
	return value(status)
}

func valueTarget(of autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	text := column.Unknown
	if of.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			text = now.AverageValue.String()
		}
		return text + "/" + of.AverageValue.String() + " (avg)"
	}
	if now != nil {
		text = now.Value.String()
	}
	return text + "/" + of.Value.String()
}

func resourceTarget(name corev1.ResourceName, of autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	value, goal := column.Unknown, "<auto>"
	if of.AverageValue != nil {
		if now != nil {
			value = now.AverageValue.String()
		}
		goal = of.AverageValue.String()
	} else {
		if now != nil && now.AverageUtilization != nil {
			value = fmt.Sprintf("%d%%", *now.AverageUtilization)
		}
		if of.AverageUtilization != nil {
			goal = fmt.Sprintf("%d%%", *of.AverageUtilization)
		}
	}
	return fmt.Sprintf("%s: %s/%s", name, value, goal)
}

func validateStatus(a *autoscaler) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("status")
	ps.NotNegative(p.Child("currentReplicas"), int64(a.Status.CurrentReplicas))
	ps.NotNegative(p.Child("desiredReplicas"), int64(a.Status.DesiredReplicas))
	return ps.List
}
