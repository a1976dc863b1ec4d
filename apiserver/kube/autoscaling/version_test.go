package autoscaling_test

import (
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/autoscaling"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const withMetrics = `
metadata: {name: a, annotations: {mine: "yes"}}
spec:
  scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}
  minReplicas: 2
  maxReplicas: 5
  metrics:
  - {type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: "2"}}}
  - {type: Object, object: {metric: {name: m}, describedObject: {kind: A, name: b}, target: {type: Value, value: "2"}}}
  - {type: External, external: {metric: {name: m}, target: {type: AverageValue, averageValue: "2"}}}
  - {type: ContainerResource, containerResource: {name: cpu, container: c, target: {type: Utilization, averageUtilization: 2}}}
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}
  behavior: {scaleDown: {tolerance: 200m, stabilizationWindowSeconds: 3, selectPolicy: Min, policies: [{type: Pods, value: 1, periodSeconds: 2}]}}
status:
  currentReplicas: 3
  desiredReplicas: 4
  currentMetrics: [{type: Resource, resource: {name: cpu, current: {averageUtilization: 7, averageValue: 1m}}}]
  conditions: [{type: AbleToScale, status: "True", lastTransitionTime: "2026-01-01T00:00:00Z", reason: R, message: m}]
`

// TestVersions converts an autoscaler to v1 and back. What v1 shows is what kube-apiserver v1.36 shows.
func TestVersions(t *testing.T) {
	r := autoscaling.HorizontalPodAutoscalers()
	v1 := r.Versions[0]
	a := kindtest.Decode(t, r.New, withMetrics).(*autoscalingv2.HorizontalPodAutoscaler)
	before := a.DeepCopy()
	old, err := v1.From(a)
	if err != nil {
		t.Fatal(err)
	}
	want := kindtest.Decode(t, v1.New, `
metadata:
  name: a
  annotations:
    mine: "yes"
    autoscaling.alpha.kubernetes.io/metrics: '[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"2"}},{"type":"Object","object":{"target":{"kind":"A","name":"b"},"metricName":"m","targetValue":"2"}},{"type":"External","external":{"metricName":"m","targetAverageValue":"2"}},{"type":"ContainerResource","containerResource":{"name":"cpu","targetAverageUtilization":2,"container":"c"}}]'
    autoscaling.alpha.kubernetes.io/behavior: '{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":3,"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":1,"PeriodSeconds":2}],"Tolerance":"200m"}}'
    autoscaling.alpha.kubernetes.io/conditions: '[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":"m"}]'
    autoscaling.alpha.kubernetes.io/current-metrics: '[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"1m"}}]'
spec: {scaleTargetRef: {kind: Deployment, name: web, apiVersion: apps/v1}, minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 50}
status: {currentReplicas: 3, desiredReplicas: 4, currentCPUUtilizationPercentage: 7}
`)
	kindtest.ExpectYAML(t, old, want)
	kindtest.ExpectYAML(t, a, before)
	back, err := v1.To(old)
	if err != nil {
		t.Fatal(err)
	}
	kindtest.ExpectYAML(t, back, a)
	kindtest.ExpectYAML(t, old, want)
}

// TestBrokenAnnotations: annotations that nothing can read do not get in the way.
func TestBrokenAnnotations(t *testing.T) {
	v1 := autoscaling.HorizontalPodAutoscalers().Versions[0]
	broken := &autoscalingv1.HorizontalPodAutoscaler{}
	broken.Annotations = map[string]string{"autoscaling.alpha.kubernetes.io/metrics": "[", "autoscaling.alpha.kubernetes.io/behavior": "7"}
	got, err := v1.To(broken)
	if err != nil {
		t.Fatal(err)
	}
	a := got.(*autoscalingv2.HorizontalPodAutoscaler)
	if len(a.Annotations) != 0 || a.Spec.Behavior != nil || len(a.Spec.Metrics) != 1 || *a.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("To of broken annotations = %+v, want no annotations, no behavior and one metric with utilization 80", a)
	}
}

// FuzzVersions: any annotations are converted, and what was read is written so that it reads the same.
func FuzzVersions(f *testing.F) {
	f.Add(`[{"type":"Object","object":{"target":{"kind":"A"}}}]`, `{"ScaleUp":{"Tolerance":"1"}}`, int32(5))
	f.Add(`null`, `{}`, int32(-1))
	v1 := autoscaling.HorizontalPodAutoscalers().Versions[0]
	f.Fuzz(func(t *testing.T, metrics, behavior string, percent int32) {
		old := &autoscalingv1.HorizontalPodAutoscaler{}
		old.Spec.TargetCPUUtilizationPercentage = &percent
		old.Annotations = map[string]string{"autoscaling.alpha.kubernetes.io/metrics": metrics, "autoscaling.alpha.kubernetes.io/behavior": behavior}
		a, err := v1.To(old)
		if err != nil {
			t.Fatal(err)
		}
		once, err := v1.From(a)
		if err != nil {
			t.Fatal(err)
		}
		again, err := v1.To(once)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := v1.From(again)
		if err != nil {
			t.Fatal(err)
		}
		kindtest.ExpectYAML(t, twice, once)
	})
}

// TestColumnsOfAnything: a table of any metrics can be made.
func TestColumnsOfAnything(t *testing.T) {
	r := autoscaling.HorizontalPodAutoscalers()
	random := rand.New(rand.NewPCG(1, 1))
	maybe := func() *resource.Quantity {
		if random.IntN(2) == 0 {
			return nil
		}
		return resource.NewMilliQuantity(random.Int64N(5000), resource.DecimalSI)
	}
	for range 200 {
		a := &autoscalingv2.HorizontalPodAutoscaler{}
		target := autoscalingv2.MetricTarget{Value: maybe(), AverageValue: maybe()}
		value := autoscalingv2.MetricValueStatus{Value: maybe(), AverageValue: maybe()}
		a.Spec.Metrics = []autoscalingv2.MetricSpec{
			{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: target}},
			{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Target: target}},
		}
		a.Status.CurrentMetrics = []autoscalingv2.MetricStatus{
			{Resource: &autoscalingv2.ResourceMetricStatus{Current: value}}, {Pods: &autoscalingv2.PodsMetricStatus{Current: value}},
		}[:random.IntN(3)]
		for _, c := range r.Columns {
			c.Value(a)
		}
	}
}
