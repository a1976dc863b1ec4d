package autoscale

import (
	"context"
	"errors"
	"fmt"
	"math"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// proposal holds the replicas that the metrics ask for.
type proposal struct {
	replicas int32
	// reason is for the event of the change.
	reason   string
	statuses []autoscalingv2.MetricStatus
	// failed is set if there is no proposal. A proposal may also come with an error: of some of the metrics.
	failed bool
}

// measure holds the replicas that one metric asks for.
type measure struct {
	replicas int32
	name     string
	status   autoscalingv2.MetricStatus
}

// failure is an error of a metric, with the reason for the condition.
type failure struct {
	reason string
	// wrapped has what was being measured.
	cause, wrapped error
}

// propose asks each metric and takes the largest number of replicas. If a metric fails, the others must not
// scale down.
func (a *attempt) propose(ctx context.Context, scale *autoscalingv1.Scale) (proposal, error) {
	selector, pods, err := a.pods(scale.Status.Selector)
	if err != nil {
		return proposal{failed: true}, err
	}
	metrics := a.hpa.Spec.Metrics
	p := proposal{statuses: make([]autoscalingv2.MetricStatus, len(metrics))}
	var name string
	var first *failure
	invalid := 0
	q := question{attempt: a, scale: scale, selector: selector, pods: pods}
	for i := range metrics {
		m, failed := q.ask(ctx, &metrics[i])
		if failed != nil {
			a.event(a.hpa, corev1.EventTypeWarning, failed.reason, "%v", failed.cause)
			if invalid++; first == nil {
				first = failed
			}
			continue
		}
		p.statuses[i] = m.status
		if p.replicas == 0 || m.replicas > p.replicas {
			p.replicas, name = m.replicas, m.name
		}
	}
	if first != nil {
		err = fmt.Errorf("invalid metrics (%v invalid out of %v), first error is: %w", invalid, len(metrics), first.wrapped)
	}
	if invalid >= len(metrics) || invalid > 0 && p.replicas < scale.Spec.Replicas {
		if first != nil {
			a.set(autoscalingv2.ScalingActive, false, first.reason, "the HPA was unable to compute the replica count: %v", first.cause)
		}
		p.failed = true
		return p, err
	}
	a.set(autoscalingv2.ScalingActive, true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from %s", name)
	p.replicas = max(p.replicas, 0)
	switch current := scale.Spec.Replicas; {
	case p.replicas > current:
		p.reason = name + " above target"
	case p.replicas < current:
		p.reason = "All metrics below target"
	}
	return p, err
}

// question is one autoscaler's question to its metrics.
type question struct {
	*attempt
	scale    *autoscalingv1.Scale
	selector labels.Selector
	pods     []*corev1.Pod
}

func (q *question) ask(ctx context.Context, m *autoscalingv2.MetricSpec) (measure, *failure) {
	var out measure
	var err error
	var reason, what string
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		reason, what = "FailedGetResourceMetric", fmt.Sprintf("%s resource metric value", m.Resource.Name)
		var now autoscalingv2.MetricValueStatus
		out, now, err = q.resource(ctx, m.Resource.Name, "", m.Resource.Target)
		out.status.Resource = &autoscalingv2.ResourceMetricStatus{Name: m.Resource.Name, Current: now}
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		c := m.ContainerResource
		reason, what = "FailedGetContainerResourceMetric", fmt.Sprintf("%s container metric value", c.Container)
		var now autoscalingv2.MetricValueStatus
		out, now, err = q.resource(ctx, c.Name, c.Container, c.Target)
		out.status.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{Name: c.Name, Container: c.Container, Current: now}
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil:
		reason, what = "FailedGetPodsMetric", "pods metric value"
		out, err = q.podsMetric(ctx, m.Pods)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		reason, what = "FailedGetObjectMetric", "object metric value"
		if m.Object.Target.Type == autoscalingv2.AverageValueMetricType {
			what += fmt.Sprintf(": failed to get %s object metric", m.Object.Metric.Name)
		}
		out, err = q.object(ctx, m.Object)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		name := m.External.Metric.Name
		reason, what = "FailedGetExternalMetric", name+" external metric value"
		if m.External.Target.AverageValue != nil {
			what += fmt.Sprintf(": failed to get %s external metric", name)
		} else {
			what += ": failed to get external metric " + name
		}
		out, err = q.external(ctx, m.External)
	default:
		err = fmt.Errorf("unknown metric source type %q", m.Type)
		return out, &failure{"InvalidMetricSourceType", err, err}
	}
	if err != nil {
		return out, &failure{reason, err, fmt.Errorf("failed to get %s: %w", what, err)}
	}
	out.status.Type = m.Type
	return out, nil
}

// calculation returns the calculation of replicas by samples.
func (q *question) calculation(samples map[string]Sample, name corev1.ResourceName, container string) *Calculation {
	t := &q.config.Tuning
	return &Calculation{
		Now: q.now, Current: q.scale.Spec.Replicas, Pods: q.pods, Samples: samples, Resource: name, Container: container,
		Tolerance: q.tolerance(), Initialization: t.Initialization, ReadinessDelay: t.ReadinessDelay,
	}
}

func (q *question) tolerance() Tolerance {
	t := Tolerance{q.config.Tuning.Tolerance, q.config.Tuning.Tolerance}
	if b := q.hpa.Spec.Behavior; b != nil {
		if b.ScaleDown != nil && b.ScaleDown.Tolerance != nil {
			t.Down = b.ScaleDown.Tolerance.AsApproximateFloat64()
		}
		if b.ScaleUp != nil && b.ScaleUp.Tolerance != nil {
			t.Up = b.ScaleUp.Tolerance.AsApproximateFloat64()
		}
	}
	return t
}

func (q *question) resource(ctx context.Context, name corev1.ResourceName, container string, target autoscalingv2.MetricTarget) (measure, autoscalingv2.MetricValueStatus, error) {
	var now autoscalingv2.MetricValueStatus
	if target.AverageValue == nil && target.AverageUtilization == nil {
		return measure{}, now, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	of := "utilization"
	if target.AverageValue != nil {
		of = "usage"
	}
	samples, err := q.config.Source.Resource(ctx, q.hpa.Namespace, q.selector, name, container)
	if err != nil {
		return measure{}, now, fmt.Errorf("failed to get %s %s: unable to get metrics for resource %s: %w", name, of, name, err)
	}
	calculation := q.calculation(samples, name, container)
	out := measure{name: string(name) + " resource"}
	var average int64
	if target.AverageValue != nil {
		out.replicas, average, err = calculation.Average(target.AverageValue.MilliValue())
	} else {
		var percent int32
		out.name = string(name) + " resource utilization (percentage of request)"
		if container != "" {
			out.name = string(name) + " container resource utilization (percentage of request)"
		}
		out.replicas, percent, average, err = calculation.Utilization(*target.AverageUtilization)
		now.AverageUtilization = &percent
	}
	if err != nil {
		return measure{}, now, fmt.Errorf("failed to get %s %s: %w", name, of, err)
	}
	format := resource.DecimalSI
	if name == corev1.ResourceMemory {
		format = resource.BinarySI
	}
	now.AverageValue = resource.NewMilliQuantity(average, format)
	return out, now, nil
}

func milli(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }

func metricOf(id autoscalingv2.MetricIdentifier) (Metric, error) {
	selector, err := metav1.LabelSelectorAsSelector(id.Selector)
	if id.Selector == nil {
		selector = labels.Everything()
	}
	return Metric{id.Name, selector}, err
}

func (q *question) podsMetric(ctx context.Context, m *autoscalingv2.PodsMetricSource) (measure, error) {
	metric, err := metricOf(m.Metric)
	if err != nil {
		return measure{}, err
	}
	samples, err := q.config.Source.Pods(ctx, q.hpa.Namespace, q.selector, metric)
	if err != nil {
		return measure{}, fmt.Errorf("unable to get metric %s: %w", metric.Name, err)
	}
	replicas, average, err := q.calculation(samples, "", "").Average(m.Target.AverageValue.MilliValue())
	return measure{replicas, "pods metric " + metric.Name, autoscalingv2.MetricStatus{Pods: &autoscalingv2.PodsMetricStatus{
		Metric: m.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: milli(average)},
	}}}, err
}

func (q *question) object(ctx context.Context, m *autoscalingv2.ObjectMetricSource) (measure, error) {
	metric, err := metricOf(m.Metric)
	if err != nil {
		return measure{}, err
	}
	isValue := m.Target.Type == autoscalingv2.ValueMetricType && m.Target.Value != nil
	isAverage := m.Target.Type == autoscalingv2.AverageValueMetricType && m.Target.AverageValue != nil
	if !isValue && !isAverage {
		return measure{}, errors.New("invalid object metric source: neither a value target nor an average value target was set")
	}
	usage, err := q.config.Source.Object(ctx, q.hpa.Namespace, m.DescribedObject, metric)
	if err != nil {
		// This is the order of words in Kubernetes.
		err = fmt.Errorf("unable to get metric %s: %s on %s %s/%w", metric.Name, m.DescribedObject.Kind, q.hpa.Namespace, m.DescribedObject.Name, err)
		return measure{}, err
	}
	status := &autoscalingv2.ObjectMetricStatus{DescribedObject: m.DescribedObject, Metric: m.Metric}
	out := measure{status: autoscalingv2.MetricStatus{Object: status}}
	if isValue {
		out.replicas, err = q.byValue(usage, m.Target.Value.MilliValue())
		out.name, status.Current.Value = m.DescribedObject.Kind+" metric "+metric.Name, milli(usage)
		return out, err
	}
	var average int64
	out.replicas, average = q.perPod(usage, m.Target.AverageValue.MilliValue())
	out.name, status.Current.AverageValue = fmt.Sprintf("external metric %s(%+v)", metric.Name, m.Metric.Selector), milli(average)
	return out, nil
}

func (q *question) external(ctx context.Context, m *autoscalingv2.ExternalMetricSource) (measure, error) {
	if m.Target.Value == nil && m.Target.AverageValue == nil {
		return measure{}, errors.New("invalid external metric source: neither a value target nor an average value target was set")
	}
	metric, err := metricOf(m.Metric)
	var values []int64
	if err == nil {
		if values, err = q.config.Source.External(ctx, q.hpa.Namespace, metric); err != nil {
			err = fmt.Errorf("unable to get external metric %s/%s/%+v: %w", q.hpa.Namespace, metric.Name, m.Metric.Selector, err)
		}
	}
	if err != nil {
		return measure{}, err
	}
	var usage int64
	for _, value := range values {
		if value > 0 && usage > math.MaxInt64-value {
			usage = math.MaxInt64
			break
		}
		usage += value
	}
	status := &autoscalingv2.ExternalMetricStatus{Metric: m.Metric}
	out := measure{name: fmt.Sprintf("external metric %s(%+v)", metric.Name, m.Metric.Selector), status: autoscalingv2.MetricStatus{External: status}}
	if m.Target.AverageValue != nil {
		var average int64
		out.replicas, average = q.perPod(usage, m.Target.AverageValue.MilliValue())
		status.Current.AverageValue = milli(average)
		return out, nil
	}
	if out.replicas, err = q.byValue(usage, m.Target.Value.MilliValue()); err != nil {
		return measure{}, err
	}
	status.Current.Value = milli(usage)
	return out, nil
}

// byValue returns the replicas that bring usage to target if it is shared by the ready pods.
func (q *question) byValue(usage, target int64) (int32, error) {
	ratio := float64(usage) / float64(target)
	if q.scale.Spec.Replicas == 0 {
		return int32(math.Ceil(ratio)), nil
	}
	if q.tolerance().covers(ratio) {
		return q.scale.Spec.Replicas, nil
	}
	if len(q.pods) == 0 {
		return 0, fmt.Errorf("unable to calculate ready pods: %w", errNoPods)
	}
	ready := 0
	for _, pod := range q.pods {
		if pod.Status.Phase == corev1.PodRunning && isReady(pod) {
			ready++
		}
	}
	return int32(min(math.Ceil(ratio*float64(ready)), math.MaxInt32)), nil
}

// perPod returns the replicas that bring usage to target for each, and the present average.
func (q *question) perPod(usage, target int64) (replicas int32, average int64) {
	replicas = q.scale.Status.Replicas
	average = usage
	if !q.tolerance().covers(float64(usage) / (float64(target) * float64(replicas))) {
		replicas = int32(min(math.Ceil(float64(usage)/float64(target)), math.MaxInt32))
	}
	if usage < math.MaxInt64 && q.scale.Status.Replicas > 0 {
		average = int64(math.Ceil(float64(usage) / float64(q.scale.Status.Replicas)))
	}
	return replicas, average
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
