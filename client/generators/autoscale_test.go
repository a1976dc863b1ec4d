package generators_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/generators"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"
)

var web = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}

func ExampleAutoscale() {
	autoscaler, err := generators.Autoscale(generators.AutoscaleOptions{Target: web, Max: 5, CPU: "70%", Memory: "200Mi"})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := yaml.Marshal(autoscaler.Spec)
	fmt.Print(string(text), err)
	// Output:
	// maxReplicas: 5
	// metrics:
	// - resource:
	//     name: cpu
	//     target:
	//       averageUtilization: 70
	//       type: Utilization
	//   type: Resource
	// - resource:
	//     name: memory
	//     target:
	//       averageValue: 200Mi
	//       type: AverageValue
	//   type: Resource
	// scaleTargetRef:
	//   apiVersion: apps/v1
	//   kind: Deployment
	//   name: web
	// <nil>
}

// TestAutoscale: names, limits and targets are those of the flags.
func TestAutoscale(t *testing.T) {
	a, err := generators.Autoscale(generators.AutoscaleOptions{Name: "x", Namespace: "shop", Target: web, Min: 2, Max: 2, CPUPercent: 80})
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "x" || a.Namespace != "shop" || *a.Spec.MinReplicas != 2 || a.Spec.MaxReplicas != 2 || a.Spec.ScaleTargetRef != web ||
		len(a.Spec.Metrics) != 1 || *a.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("Autoscale = %+v, want x in shop, 2 to 2 replicas of %+v, one metric of 80%%", a, web)
	}
	a, err = generators.Autoscale(generators.AutoscaleOptions{Target: web, Min: -1, Max: 2, CPUPercent: -1})
	if err != nil || a.Name != "web" || a.Spec.MinReplicas != nil || a.Spec.Metrics != nil {
		t.Errorf("Autoscale with Min and CPUPercent of -1 = %+v, %v, want web without MinReplicas and Metrics", a, err)
	}
	for flag, want := range map[string]string{
		"cpu 500m": "500m", "cpu 500": "500m", "cpu 0.5": "500u", "cpu  2 ": "2m", "cpu 1000000": "1k", "cpu 1e3": "1", "cpu 2k": "2k", "cpu 0x1p4": "16m",
		"memory 200": "200Mi", "memory 1Gi": "1Gi", "memory 1.5": "1536Ki", "memory 2000000": "2000000Mi", "memory 60%": "60%", "cpu +7%": "7%",
	} {
		o := generators.AutoscaleOptions{Target: web, Max: 2}
		if name, value, _ := strings.Cut(flag, " "); name == "cpu" {
			o.CPU = value
		} else {
			o.Memory = value
		}
		a, err := generators.Autoscale(o)
		if err != nil {
			t.Errorf("Autoscale with %s: %v", flag, err)
			continue
		}
		target := a.Spec.Metrics[0].Resource.Target
		got := fmt.Sprint(target.AverageValue)
		if target.AverageUtilization != nil {
			got = fmt.Sprint(*target.AverageUtilization, "%")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", flag, got, want)
		}
	}
}

func TestAutoscaleRefuses(t *testing.T) {
	for want, change := range map[string]func(*generators.AutoscaleOptions){
		"--max=MAXPODS is required and must be at least 1, max: 0":               func(o *generators.AutoscaleOptions) { o.Max = 0 },
		"--max=MAXPODS must be larger or equal to --min=MINPODS, max: 5, min: 6": func(o *generators.AutoscaleOptions) { o.Min = 6 },
		"--cpu-percent and --cpu are mutually exclusive":                         func(o *generators.AutoscaleOptions) { o.CPUPercent, o.CPU = 1, "1%" },
		"invalid percentage value: 1.5":                                          func(o *generators.AutoscaleOptions) { o.CPU = "1.5%" },
		"invalid percentage value: -1":                                           func(o *generators.AutoscaleOptions) { o.Memory = "-1%" },
		"invalid percentage value: 2147483648":                                   func(o *generators.AutoscaleOptions) { o.Memory = "2147483648%" },
		"invalid percentage value: ":                                             func(o *generators.AutoscaleOptions) { o.Memory = "%" },
		"invalid resource cpu value: many":                                       func(o *generators.AutoscaleOptions) { o.CPU = "many" },
		"invalid resource cpu value: NaN":                                        func(o *generators.AutoscaleOptions) { o.CPU = "NaN" },
		"invalid resource memory value: inf":                                     func(o *generators.AutoscaleOptions) { o.Memory = "inf" },
		"empty input":                                                            func(o *generators.AutoscaleOptions) { o.Memory = " " },
		"the target needs a kind and a name":                                     func(o *generators.AutoscaleOptions) { o.Target.Name = "" },
	} {
		o := generators.AutoscaleOptions{Target: web, Max: 5}
		change(&o)
		if a, err := generators.Autoscale(o); err == nil || err.Error() != want {
			t.Errorf("%v %v, want %s", a, err, want)
		}
	}
}

// FuzzAutoscale shows that each target that is accepted is in one metric, in one form.
func FuzzAutoscale(f *testing.F) {
	f.Add("70%", "200Mi")
	f.Add("1e308", "1e-308")
	f.Add("0x1p-1074", "-1")
	f.Fuzz(func(t *testing.T, cpu, memory string) {
		a, err := generators.Autoscale(generators.AutoscaleOptions{Target: web, Max: 1, CPU: cpu, Memory: memory})
		if err != nil {
			return
		}
		n := 0
		for _, m := range a.Spec.Metrics {
			target := m.Resource.Target
			if (target.AverageUtilization == nil) == (target.AverageValue == nil) {
				t.Errorf("Autoscale with cpu %q, memory %q has the target %+v, want either a utilization or a value", cpu, memory, target)
			}
			n++
		}
		for _, text := range []string{cpu, memory} {
			if text != "" {
				n--
			}
		}
		if n != 0 {
			t.Errorf("%q %q: %d metrics", cpu, memory, len(a.Spec.Metrics))
		}
	})
}
