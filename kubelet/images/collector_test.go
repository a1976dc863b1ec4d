package images_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/kubelet/images"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// disk is a runtime whose images fill a disk of 1000 bytes.
type disk struct {
	images map[string]*runtimeapi.Image
	inUse  []string
	other  int64  // bytes of other files
	refuse string // an image that cannot be removed
	events []string
}

func newDisk(sizes map[string]uint64) *disk {
	d := &disk{images: map[string]*runtimeapi.Image{}}
	for id, size := range sizes {
		d.add(id, size)
	}
	return d
}

func (d *disk) add(id string, size uint64) {
	d.images[id] = &runtimeapi.Image{Id: id, Size: size, RepoTags: []string{"registry.example/" + id + ":1"}}
}

func (d *disk) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{Images: slices.Collect(maps.Values(d.images))}, nil
}

func (d *disk) RemoveImage(_ context.Context, in *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	if in.Image.Image == d.refuse {
		return nil, errors.New("it is being exported")
	}
	delete(d.images, in.Image.Image)
	return &runtimeapi.RemoveImageResponse{}, nil
}

func (d *disk) space(context.Context) (capacity, available int64, err error) {
	return 1000, 1000 - d.used(), nil
}

func (d *disk) used() int64 {
	used := d.other
	for _, image := range d.images {
		used += int64(image.Size)
	}
	return used
}

func (d *disk) left() string { return strings.Join(slices.Sorted(maps.Keys(d.images)), " ") }

func (d *disk) collector(t *testing.T, change func(*images.Config)) *images.Collector {
	t.Helper()
	c := images.Config{
		Images: d, FileSystem: d.space,
		InUse: func(context.Context) ([]string, error) { return d.inUse, nil },
		Event: func(reason, message string) { d.events = append(d.events, reason+": "+message) },
	}
	if change != nil {
		change(&c)
	}
	collector, err := images.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return collector
}

func collect(t *testing.T, c *images.Collector) {
	t.Helper()
	if err := c.Collect(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestCollect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(map[string]uint64{"a": 100, "b": 100, "c": 100, "pinned": 100, "sandbox": 100})
		d.images["pinned"].Pinned = true
		d.inUse = []string{"a", "registry.example/b:1"}
		c := d.collector(t, func(c *images.Config) { c.Keep = []string{"registry.example/sandbox:1"} })
		collect(t, c)
		time.Sleep(time.Minute)
		d.inUse = []string{"b"}
		d.add("d", 300)
		d.other = 50
		err := c.Collect(t.Context()) // 850 of 1000: everything that could go is new, or in use
		if err == nil || d.left() != "a b c d pinned sandbox" || len(d.events) != 1 ||
			d.events[0] != "FreeDiskSpaceFailed: Failed to garbage collect required amount of images. Attempted to free 50 bytes, but only found 0 bytes eligible to free." {
			t.Errorf("Collect: %v, it leaves %q, events %q; want an error, all images left, and one event of 50 bytes with 0 eligible",
				err, d.left(), d.events)
		}
	})
}

func TestCollectOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(map[string]uint64{"a": 100, "b": 100, "c": 100})
		d.inUse = []string{"a", "b"}
		c := d.collector(t, nil)
		collect(t, c)
		time.Sleep(time.Minute)
		d.inUse = []string{"b"}
		collect(t, c)
		time.Sleep(2 * time.Minute)
		d.inUse = nil
		d.other = 540
		collect(t, c) // 840 of 1000
		if d.left() != "a b c" {
			t.Errorf("below the threshold: %s", d.left())
		}
		d.other = 650
		collect(t, c) // 950: 150 must go; c was never used, a before b
		if d.left() != "b" {
			t.Errorf("left: %s", d.left())
		}
		d.refuse = "b"
		d.other = 900
		if err := c.Collect(t.Context()); err == nil || !strings.Contains(err.Error(), "remove image b: it is being exported") {
			t.Error(err)
		}
	})
}

func TestMaxAgeAndRemoveUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(map[string]uint64{"used": 10, "unused": 10})
		d.inUse = []string{"used"}
		c := d.collector(t, func(c *images.Config) { c.MaxAge = time.Hour })
		collect(t, c)
		time.Sleep(50 * time.Minute)
		d.inUse = nil
		d.add("new", 20)
		collect(t, c)
		time.Sleep(11 * time.Minute)
		collect(t, c)
		if d.left() != "new" {
			t.Errorf("after an hour: %s, want that which was used, and is not, to go with the other", d.left())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(map[string]uint64{"used": 10, "unused": 10})
		d.inUse = []string{"used"}
		c := d.collector(t, nil)
		collect(t, c)
		time.Sleep(3 * time.Minute)
		d.add("new", 20)
		if freed, err := c.RemoveUnused(t.Context()); err != nil || freed != 10 || d.left() != "new used" {
			t.Errorf("freed %d, left %s: %v", freed, d.left(), err)
		}
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk(map[string]uint64{"a": 900})
		c := d.collector(t, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { c.Run(ctx); close(ended) }()
		time.Sleep(5*time.Minute + time.Second)
		synctest.Wait()
		if d.left() != "" || len(d.events) != 2 || !strings.HasPrefix(d.events[1], "ImageGCFailed: ") {
			t.Errorf("left %q, events %q", d.left(), d.events)
		}
		stop()
		<-ended
	})
}

// TestModel: whatever happens, an image that is used, pinned or new stays, and after a collection that
// succeeds the disk is below the threshold.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for i := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, i))
			d := newDisk(nil)
			c := d.collector(t, nil)
			born := map[string]time.Time{}
			for step := range 40 {
				for n := range 3 {
					id := fmt.Sprint(step, "-", n)
					d.add(id, uint64(random.IntN(60)))
					d.images[id].Pinned = random.IntN(10) == 0
				}
				d.inUse = nil
				for _, id := range slices.Sorted(maps.Keys(d.images)) {
					if _, known := born[id]; !known {
						born[id] = time.Now()
					}
					if random.IntN(6) == 0 {
						d.inUse = append(d.inUse, id)
					}
				}
				before := maps.Clone(d.images)
				err := c.Collect(t.Context())
				for id, image := range before {
					if d.images[id] == nil && (image.Pinned || slices.Contains(d.inUse, id) || time.Since(born[id]) < images.DefaultMinAge) {
						t.Fatalf("seed %d, %d: %s was removed", seed, i, id)
					}
				}
				if err == nil && d.used() >= 850 {
					t.Fatalf("seed %d, %d: %d bytes are used", seed, i, d.used())
				}
				time.Sleep(time.Duration(random.IntN(300)) * time.Second)
			}
		})
	}
}

func TestConfigIsChecked(t *testing.T) {
	d := newDisk(nil)
	for want, spoil := range map[string]func(*images.Config){
		"InUse": func(c *images.Config) { c.InUse = nil }, "High": func(c *images.Config) { c.High = 101 }, "Low -1": func(c *images.Config) { c.Low = -1 },
		"Low 90 is above High 85": func(c *images.Config) { c.Low = 90 }, "MinAge": func(c *images.Config) { c.MinAge = -1 },
		"MaxAge 1m0s is not above MinAge 2m0s": func(c *images.Config) { c.MaxAge = time.Minute },
	} {
		c := images.Config{Images: d, FileSystem: d.space, InUse: func(context.Context) ([]string, error) { return nil, nil }}
		spoil(&c)
		if _, err := images.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
