package usagering_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/admission/initialresources/usagering"
	corev1 "k8s.io/api/core/v1"
)

func Example() {
	usage, err := usagering.New(usagering.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range int64(100) {
		usage.Add(usagering.Sample{Image: "nginx:1.27", Namespace: "shop", CPU: i + 1, Memory: (i + 1) << 20})
	}
	now := time.Now()
	cpu, samples, err := usage.Usage(context.Background(), initialresources.Query{
		Resource: corev1.ResourceCPU, Percentile: 90, Image: "nginx", AnyTag: true, Start: now.Add(-time.Hour), End: now,
	})
	fmt.Println(cpu, samples, err)
	// Output: 90 100 <nil>
}

// TestModel compares with a list of all samples, of which rings and the number of
// rings are applied by counting.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const series, samples = 5, 40
	ring, err := usagering.New(usagering.Config{Series: series, Samples: samples})
	if err != nil {
		t.Fatal(err)
	}
	images := []string{"a:1", "a:2", "reg:5000/a", "reg:5000/a:1", "b@sha256:12"}
	names := []string{"a", "a", "reg:5000/a", "reg:5000/a", "b"}
	var all []usagering.Sample // the oldest first
	start := time.Unix(1_800_000_000, 0)
	for i := range 1500 {
		// Few images for a while, so that rings are filled, and then others.
		s := usagering.Sample{
			Image: images[(i/150+random.IntN(2))%len(images)], Namespace: fmt.Sprint("n", random.IntN(2)),
			Time: start.Add(time.Duration(i+random.IntN(500)) * time.Minute), CPU: random.Int64N(1000), Memory: random.Int64(),
		}
		ring.Add(s)
		all = append(all, s)
		kept := keep(all, series, samples)
		which := random.IntN(len(images))
		q := initialresources.Query{
			Resource: corev1.ResourceCPU, Percentile: 1 + random.IntN(100), Image: images[which],
			Start: start.Add(time.Duration(i-random.IntN(1000)) * time.Minute), End: start.Add(time.Duration(i+random.IntN(1000)) * time.Minute),
		}
		if random.IntN(2) == 0 {
			q.Resource = corev1.ResourceMemory
		}
		if random.IntN(2) == 0 {
			q.Image, q.AnyTag = names[which], true
		}
		if random.IntN(2) == 0 {
			q.Namespace = fmt.Sprint("n", random.IntN(2))
		}
		usage, n, err := ring.Usage(t.Context(), q)
		wantUsage, wantN := percentile(kept, q, images, names)
		if err != nil || n != wantN || usage != wantUsage {
			t.Fatalf("step %d, %+v: %d of %d, %v; want %d of %d (seed %d)", i, q, usage, n, err, wantUsage, wantN, seed)
		}
	}
}

// keep returns the samples that a ring with these limits keeps.
func keep(all []usagering.Sample, series, samples int) []usagering.Sample {
	// Going back in time, a pair is forgotten once as many others came after it. What
	// it had before it was forgotten does not come back.
	live, gone := map[string]int{}, map[string]bool{}
	var kept []usagering.Sample
	for i, s := range slices.Backward(all) {
		pair := s.Image + " " + s.Namespace
		if gone[pair] || evictedAfter(all, i, pair, series) {
			gone[pair] = true
			continue
		}
		if live[pair] < samples {
			live[pair]++
			kept = append(kept, s)
		}
	}
	return kept
}

// evictedAfter reports whether, between this sample of a pair and its next, so many
// other pairs had samples that the pair was forgotten.
func evictedAfter(all []usagering.Sample, i int, pair string, series int) bool {
	others := map[string]bool{}
	for _, s := range all[i+1:] {
		other := s.Image + " " + s.Namespace
		if other == pair {
			return false
		}
		if others[other] = true; len(others) >= series {
			return true
		}
	}
	return false
}

// percentile is the smallest value that so many per cent do not exceed.
func percentile(kept []usagering.Sample, q initialresources.Query, images, names []string) (usage, n int64) {
	var values []int64
	for _, s := range kept {
		name := names[slices.Index(images, s.Image)]
		if s.Image != q.Image && (!q.AnyTag || name != q.Image) || q.Namespace != "" && s.Namespace != q.Namespace ||
			s.Time.Before(q.Start) || s.Time.After(q.End) {
			continue
		}
		if q.Resource == corev1.ResourceCPU {
			values = append(values, s.CPU)
		} else {
			values = append(values, s.Memory)
		}
	}
	best := int64(-1)
	for _, v := range values {
		notAbove := 0
		for _, w := range values {
			if w <= v {
				notAbove++
			}
		}
		if notAbove*100 >= q.Percentile*len(values) && (best < 0 || v < best) {
			best = v
		}
	}
	return max(best, 0), int64(len(values))
}

func TestWrong(t *testing.T) {
	for _, c := range []usagering.Config{{Series: -1}, {Samples: -1}} {
		if _, err := usagering.New(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
	ring, err := usagering.New(usagering.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []initialresources.Query{
		{Resource: corev1.ResourceCPU}, {Resource: corev1.ResourceCPU, Percentile: 101}, {Resource: "gpu", Percentile: 90},
	} {
		if _, _, err := ring.Usage(t.Context(), q); err == nil {
			t.Errorf("%+v is answered", q)
		}
	}
}

// TestConcurrent is for the race detector.
func TestConcurrent(t *testing.T) {
	ring, err := usagering.New(usagering.Config{Series: 3, Samples: 10})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 500 {
				image := fmt.Sprintf("a:%d", (i+worker)%5)
				ring.Add(usagering.Sample{Image: image, CPU: int64(i)})
				q := initialresources.Query{Resource: corev1.ResourceCPU, Percentile: 50, Image: "a", AnyTag: true, End: time.Now()}
				if _, n, err := ring.Usage(t.Context(), q); err != nil || n > 30 {
					t.Errorf("%d samples, %v", n, err)
				}
			}
		})
	}
	all.Wait()
}
