package autoscaling

import (
	"errors"
	"fmt"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of scaling rules, in seconds.
const (
	maxPeriod = 1800
	maxWindow = 3600
)

// validate checks an autoscaler; old is nil for a new one.
func validate(a, old *autoscaler) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("spec"), &a.Spec
	least := int32(1)
	if old != nil && optional.Deref(old.Spec.MinReplicas) == 0 && old.Spec.MinReplicas != nil {
		least = 0
	}
	ps.Valid(s.MinReplicas == nil || *s.MinReplicas >= least, p.Child("minReplicas"), s.MinReplicas, fmt.Sprintf("must be greater than or equal to %d", least))
	ps.Present(s.MaxReplicas != 0, p.Child("maxReplicas"), "must be set and greater than 0")
	ps.Valid(s.MaxReplicas >= 0, p.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to 1")
	ps.Valid(s.MinReplicas == nil || s.MaxReplicas >= *s.MinReplicas, p.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`")
	same := old != nil && old.Spec.ScaleTargetRef.APIVersion == s.ScaleTargetRef.APIVersion && old.Spec.ScaleTargetRef.Kind == s.ScaleTargetRef.Kind
	checkReference(&ps, p.Child("scaleTargetRef"), s.ScaleTargetRef, same, s.ScaleTargetRef.Kind == "ReplicationController")
	checkMetrics(&ps, p.Child("metrics"), s, old)
	if b := s.Behavior; b != nil {
		checkScaling(&ps, p.Child("behavior", "scaleUp"), b.ScaleUp)
		checkScaling(&ps, p.Child("behavior", "scaleDown"), b.ScaleDown)
	}
	return ps.List
}

// checkReference checks what is scaled or measured. The version may be anything if anyVersion is set, and of the
// core group if core is.
func checkReference(ps *check.Problems, p *field.Path, ref autoscalingv2.CrossVersionObjectReference, anyVersion, core bool) {
	if ps.Required(p.Child("kind"), ref.Kind) {
		ps.Each(p.Child("kind"), ref.Kind, content.IsPathSegmentName(ref.Kind))
	}
	if ps.Required(p.Child("name"), ref.Name) {
		ps.Each(p.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))
	}
	if err := checkVersion(ref.APIVersion, core); err != nil && !anyVersion {
		ps.Add(field.Invalid(p.Child("apiVersion"), ref.APIVersion, err.Error()))
	}
}

func checkVersion(version string, core bool) error {
	gv, err := schema.ParseGroupVersion(version)
	if err == nil && gv.Group == "" && !core {
		return errors.New("apiVersion must specify API group")
	}
	return err
}

func checkMetrics(ps *check.Problems, p *field.Path, s *autoscalingv2.HorizontalPodAutoscalerSpec, old *autoscaler) {
	anyVersion := false
	if old != nil {
		for _, m := range old.Spec.Metrics {
			anyVersion = anyVersion || m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil && checkVersion(m.Object.DescribedObject.APIVersion, true) != nil
		}
	}
	outside := false
	for i := range s.Metrics {
		checkMetric(ps, p.Index(i), &s.Metrics[i], anyVersion)
		outside = outside || s.Metrics[i].Type == autoscalingv2.ObjectMetricSourceType || s.Metrics[i].Type == autoscalingv2.ExternalMetricSourceType
	}
	ps.Allowed(s.MinReplicas == nil || *s.MinReplicas != 0 || outside, p, "must specify at least one Object or External metric to support scaling to zero replicas")
}

var metricTypes = []autoscalingv2.MetricSourceType{
	autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType, autoscalingv2.ObjectMetricSourceType,
	autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
}

// source is one of the fields of a metric, of which the type selects one.
type source struct {
	of    autoscalingv2.MetricSourceType
	path  string
	is    bool
	check func(p *field.Path)
}

func checkMetric(ps *check.Problems, p *field.Path, m *autoscalingv2.MetricSpec, anyVersion bool) {
	ps.Present(m.Type != "", p.Child("type"), "must specify a metric source type")
	check.OneOf(ps, p.Child("type"), m.Type, metricTypes...)
	sources := []source{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(p *field.Path) { checkObject(ps, p, m.Object, anyVersion) }},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(p *field.Path) { checkExternal(ps, p, m.External) }},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(p *field.Path) {
			checkIdentifier(ps, p.Child("metric"), m.Pods.Metric)
			checkTarget(ps, p.Child("target"), m.Pods.Target)
			ps.Present(m.Pods.Target.AverageValue != nil, p.Child("target", "averageValue"), "must specify a positive target averageValue")
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(p *field.Path) {
			ps.Present(m.Resource.Name != "", p.Child("name"), "must specify a resource name")
			checkResource(ps, p.Child("target"), m.Resource.Target)
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil, func(p *field.Path) {
			checkContainer(ps, p, m.ContainerResource)
		}},
	}
	known, set := false, 0
	for _, s := range sources {
		if s.is {
			if set++; set == 1 {
				s.check(p.Child(s.path))
			}
		}
		known = known || s.of == m.Type
	}
	if !known {
		check.OneOf(ps, p.Child("type"), m.Type, metricTypes...) // Upstream says it twice.
	}
	for _, s := range sources {
		ps.Present(s.is || s.of != m.Type, p.Child(s.path), "must populate information for the given metric source")
		ps.Allowed(!s.is || s.of == m.Type || set == 1, p.Child(s.path), "must populate the given metric source only")
	}
}

func checkObject(ps *check.Problems, p *field.Path, o *autoscalingv2.ObjectMetricSource, anyVersion bool) {
	checkReference(ps, p.Child("describedObject"), o.DescribedObject, anyVersion, true)
	checkIdentifier(ps, p.Child("metric"), o.Metric)
	checkTarget(ps, p.Child("target"), o.Target)
	ps.Present(o.Target.Value != nil || o.Target.AverageValue != nil, p.Child("target", "averageValue"), "must set either a target value or averageValue")
}

func checkExternal(ps *check.Problems, p *field.Path, e *autoscalingv2.ExternalMetricSource) {
	checkIdentifier(ps, p.Child("metric"), e.Metric)
	checkTarget(ps, p.Child("target"), e.Target)
	ps.Present(e.Target.Value != nil || e.Target.AverageValue != nil, p.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target")
	ps.Allowed(e.Target.Value == nil || e.Target.AverageValue == nil, p.Child("target", "value"), "may not set both a target value for metric and a per-pod target")
}

func checkContainer(ps *check.Problems, p *field.Path, c *autoscalingv2.ContainerResourceMetricSource) {
	if c.Name == "" {
		ps.Add(field.Required(p.Child("name"), "must specify a resource name"))
	} else {
		podspec.ContainerResource(ps, p.Child("name"), c.Name)
	}
	if c.Container == "" {
		ps.Add(field.Required(p.Child("container"), "must specify a container"))
	} else {
		ps.DNSLabel(p.Child("container"), c.Container)
	}
	checkResource(ps, p.Child("target"), c.Target)
}

func checkResource(ps *check.Problems, p *field.Path, t autoscalingv2.MetricTarget) {
	checkTarget(ps, p, t)
	ps.Present(t.AverageUtilization != nil || t.AverageValue != nil, p.Child("averageUtilization"), "must set either a target raw value or a target utilization")
	ps.Allowed(t.AverageUtilization == nil || t.AverageValue == nil, p.Child("averageValue"), "may not set both a target raw value and a target utilization")
}

func checkIdentifier(ps *check.Problems, p *field.Path, id autoscalingv2.MetricIdentifier) {
	ps.Present(id.Name != "", p.Child("name"), "must specify a metric name")
	if id.Name != "" {
		ps.Each(p.Child("name"), id.Name, content.IsPathSegmentName(id.Name))
	}
}

func checkTarget(ps *check.Problems, p *field.Path, t autoscalingv2.MetricTarget) {
	ps.Present(t.Type != "", p.Child("type"), "must specify a metric target type")
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		ps.Add(field.Invalid(p.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	positive := func(path string, q *resource.Quantity) {
		ps.Valid(q == nil || q.Sign() == 1, p.Child(path), q, "must be positive")
	}
	positive("value", t.Value)
	positive("averageValue", t.AverageValue)
	ps.Valid(t.AverageUtilization == nil || *t.AverageUtilization >= 1, p.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0")
}

func checkScaling(ps *check.Problems, p *field.Path, r *autoscalingv2.HPAScalingRules) {
	if r == nil {
		return
	}
	if w := r.StabilizationWindowSeconds; w != nil {
		ps.Valid(*w >= 0, p.Child("stabilizationWindowSeconds"), w, "must be greater than or equal to zero")
		ps.Valid(*w <= maxWindow, p.Child("stabilizationWindowSeconds"), w, fmt.Sprintf("must be less than or equal to %v", maxWindow))
	}
	if r.SelectPolicy != nil {
		check.OneOf(ps, p.Child("selectPolicy"), *r.SelectPolicy,
			autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect)
	}
	ps.Present(len(r.Policies) > 0, p.Child("policies"), "must specify at least one Policy")
	for i, policy := range r.Policies {
		at := p.Child("policies").Index(i)
		check.OneOf(ps, at.Child("type"), policy.Type, autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy)
		ps.Valid(policy.Value > 0, at.Child("value"), policy.Value, "must be greater than zero")
		ps.Valid(policy.PeriodSeconds > 0, at.Child("periodSeconds"), policy.PeriodSeconds, "must be greater than zero")
		ps.Valid(policy.PeriodSeconds <= maxPeriod, at.Child("periodSeconds"), policy.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", maxPeriod))
	}
	if r.Tolerance != nil {
		ps.Valid(r.Tolerance.Sign() >= 0, p.Child("tolerance"), r.Tolerance.String(), "must be greater than or equal to 0")
	}
}
