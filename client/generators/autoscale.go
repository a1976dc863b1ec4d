package generators

import (
	"fmt"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AutoscaleOptions holds the flags of kubectl autoscale.
type AutoscaleOptions struct {
	// Name is the name of the autoscaler; empty means the name of the target.
	Name string
	// Namespace may be empty; the client then fills it in.
	Namespace string
	// Target is the object to scale. Required.
	Target autoscalingv2.CrossVersionObjectReference
	// Min is the lower limit of the number of pods; zero or less leaves it to the server.
	Min int32
	// Max is the upper limit of the number of pods. Required.
	Max int32
	// CPUPercent is the target utilization of CPU in percent of the request; zero or less means none.
	// It excludes CPU.
	CPUPercent int32
	// CPU and Memory are targets for the average over the pods. They are percentages of the request,
	// such as 70%, or quantities, such as 500m and 200Mi. A number without a unit counts thousandths of
	// a CPU or mebibytes. Empty means none.
	CPU, Memory string
}

// Validate returns an error if Autoscale would refuse the options for another reason than the target.
func (o *AutoscaleOptions) Validate() error {
	switch {
	case o.Max < 1:
		return message(fmt.Sprintf("--max=MAXPODS is required and must be at least 1, max: %d", o.Max))
	case o.Max < o.Min:
		return message(fmt.Sprintf("--max=MAXPODS must be larger or equal to --min=MINPODS, max: %d, min: %d", o.Max, o.Min))
	case o.CPUPercent > 0 && o.CPU != "":
		return message("--cpu-percent and --cpu are mutually exclusive")
	}
	_, err := o.metrics()
	return err
}

// Autoscale makes a HorizontalPodAutoscaler. Without a target for CPU or memory it has no metrics, and
// the server adds its default.
func Autoscale(o AutoscaleOptions) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Target.Kind == "" || o.Target.Name == "" {
		return nil, message("the target needs a kind and a name")
	}
	metrics, err := o.metrics()
	if err != nil {
		return nil, err
	}
	name := o.Name
	if name == "" {
		name = o.Target.Name
	}
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   kind("autoscaling/v2", "HorizontalPodAutoscaler"),
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: o.Namespace},
		Spec:       autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: o.Target, MaxReplicas: o.Max, Metrics: metrics},
	}
	if o.Min > 0 {
		autoscaler.Spec.MinReplicas = &o.Min
	}
	return autoscaler, nil
}

// metrics returns the metrics for the targets, CPU first.
func (o *AutoscaleOptions) metrics() ([]autoscalingv2.MetricSpec, error) {
	var all []autoscalingv2.MetricSpec
	add := func(name corev1.ResourceName, target autoscalingv2.MetricTarget) {
		all = append(all, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{Name: name, Target: target},
		})
	}
	if o.CPUPercent > 0 {
		add(corev1.ResourceCPU, utilization(o.CPUPercent))
	}
	for _, flag := range []struct {
		name        corev1.ResourceName
		value, unit string
	}{{corev1.ResourceCPU, o.CPU, "m"}, {corev1.ResourceMemory, o.Memory, "Mi"}} {
		if flag.value == "" {
			continue
		}
		target, err := parseTarget(flag.name, flag.value, flag.unit)
		if err != nil {
			return nil, err
		}
		add(flag.name, target)
	}
	return all, nil
}

func utilization(percent int32) autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent}
}

// parseTarget parses a percentage or a quantity. unit is the unit of a number without one.
func parseTarget(name corev1.ResourceName, text, unit string) (autoscalingv2.MetricTarget, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return autoscalingv2.MetricTarget{}, message("empty input")
	}
	if number, ok := strings.CutSuffix(text, "%"); ok {
		percent, err := strconv.ParseInt(number, 10, 32)
		if err != nil || percent < 0 {
			return autoscalingv2.MetricTarget{}, message("invalid percentage value: " + number)
		}
		return utilization(int32(percent)), nil
	}
	quantity := text
	if number, err := strconv.ParseFloat(text, 64); err == nil {
		quantity = strconv.FormatFloat(number, 'f', -1, 64) + unit
	}
	average, err := resource.ParseQuantity(quantity)
	if err != nil {
		return autoscalingv2.MetricTarget{}, message(fmt.Sprintf("invalid resource %s value: %s", name, text))
	}
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &average}, nil
}
