package simulate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Shape says how many pods Generate makes.
type Shape struct {
	// Pods is the number of pods; zero means 1,000.
	Pods int
	// Over is the time in which they arrive; zero means a day.
	Over time.Duration
	// Seed makes another trace of the same shape.
	Seed uint64
}

// size holds the requests of a pod, and how many pods of a hundred have them.
type size struct {
	cores   int64
	memory  int64 // MiB
	percent int
}

// sizes are most often small: a core has 1.75, 3.5 or 7 GiB.
var sizes = []size{
	{1, 1792, 30}, {1, 3584, 10}, {2, 3584, 25}, {2, 7168, 13}, {4, 7168, 8}, {4, 14336, 6}, {8, 14336, 4}, {8, 28672, 2}, {16, 57344, 2},
}

// Generate returns a trace with the shape of the virtual machines in the public trace of Azure of 2017
// (https://github.com/Azure/AzurePublicDataset; Cortez and others, Resource Central, SOSP 2017), with round
// figures and not fitted to it:
//
//   - a few sizes, each twice the one before, of which three quarters have one or two cores;
//   - deployments of pods that are alike and arrive together, many of one pod and some of dozens;
//   - lifetimes with a long tail: half of them below a fiftieth of the time, a few beyond all of it;
//   - arrivals that rise and fall once a day.
//
// One deployment of ten has the priority 100, and the others 0. The same shape makes the same trace.
func Generate(s Shape) []Arrival {
	s.Pods, s.Over = cmp.Or(s.Pods, 1000), cmp.Or(s.Over, 24*time.Hour)
	r := rand.New(rand.NewPCG(s.Seed, 0))
	var list []Arrival
	for deployment := 0; len(list) < s.Pods; deployment++ {
		at := arrivalTime(r, s.Over)
		size := pick(r)
		var priority int32
		if r.IntN(10) == 0 {
			priority = 100
		}
		for range min(deploymentSize(r), s.Pods-len(list)) {
			list = append(list, Arrival{
				At: at, Duration: lifetime(r, s.Over), Recreate: true,
				Pod: generated(fmt.Sprintf("vm-%06d", len(list)), fmt.Sprint("deployment-", deployment), size, priority),
			})
		}
	}
	slices.SortStableFunc(list, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return list
}

// arrivalTime returns a time with a density that is three times as high by day as by night.
func arrivalTime(r *rand.Rand, over time.Duration) time.Duration {
	for {
		at := time.Duration(r.Int64N(max(1, int64(over))))
		day := 2 * math.Pi * at.Hours() / 24
		if r.Float64()*3 < 2-math.Cos(day) {
			return at.Round(time.Millisecond)
		}
	}
}

// lifetime returns a duration of a log-normal distribution.
func lifetime(r *rand.Rand, over time.Duration) time.Duration {
	d := float64(over) / 50 * math.Exp(1.7*r.NormFloat64())
	return max(time.Second, time.Duration(min(d, float64(maxTime)/2)).Round(time.Millisecond))
}

// deploymentSize returns 1 in nearly half of all cases, and seldom more than ten.
func deploymentSize(r *rand.Rand) int {
	return min(50, 1+int(r.ExpFloat64()*1.2*math.Exp(0.7*r.NormFloat64())))
}

func pick(r *rand.Rand) size {
	n := r.IntN(100)
	for _, s := range sizes {
		if n -= s.percent; n < 0 {
			return s
		}
	}
	return sizes[0]
}

func generated(name, app string, s size, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			Priority: &priority,
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewQuantity(s.cores, resource.DecimalSI),
				corev1.ResourceMemory: *resource.NewQuantity(s.memory<<20, resource.BinarySI),
			}}}},
		},
	}
}
