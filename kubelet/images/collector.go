// Package images removes the images that a node no longer needs, before its disk is full.
//
//	collector, err := images.New(images.Config{
//		Images: runtime, InUse: inUse, FileSystem: space,
//	})
//	collector.Run(ctx)
//
// When the file system of the images is used above a threshold, those that were not used for the
// longest time are removed until it is used below another one. Images of containers, of running and
// of ended ones, stay, as do those that the runtime has pinned, and new ones, which a pod may be about
// to use. The figures are those of Kubernetes' kubelet.
// https://kubernetes.io/docs/concepts/architecture/garbage-collection/#container-image-lifecycle
package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The defaults. Shares of the file system are in percent.
const (
	DefaultHigh     = 85
	DefaultLow      = 80
	DefaultMinAge   = 2 * time.Minute
	DefaultInterval = 5 * time.Minute
)

// Service is the part of CRI that a Collector uses. Its methods must be safe for concurrent use.
type Service interface {
	ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error)
	RemoveImage(context.Context, *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error)
}

// Config describes a Collector. Images, InUse and FileSystem must be set.
type Config struct {
	Images Service
	// InUse returns the images of all containers, by their IDs or names.
	InUse func(ctx context.Context) ([]string, error)
	// FileSystem returns the size of the images' file system and what is left of it, in bytes.
	FileSystem func(ctx context.Context) (capacity, available int64, err error)
	// High is the use from which images are removed, and Low the use that is then aimed at; zero
	// means the defaults. A High of 100 removes nothing.
	High, Low int
	// MinAge is the time for which an image is kept after it was first seen; zero means the default.
	MinAge time.Duration
	// MaxAge, if not zero, is the time after which an unused image is removed in any case.
	MaxAge time.Duration
	// Interval is the time between two looks; zero means the default.
	Interval time.Duration
	// Keep lists further images that are never removed, such as that of sandboxes, by name.
	Keep []string
	// Event reports failures as events about the node. It may be nil.
	Event func(reason, message string)
	Log   logr.Logger
}

// Collector removes unused images.
type Collector struct {
	config Config

	mu sync.Mutex // held while images are removed
	// began is when the collector first looked; guarded by mu, as is seen.
	began time.Time
	// seen holds the images of the last look, by ID.
	seen map[string]*record
}

// record holds the history of an image.
type record struct {
	id          string
	names       []string
	size        int64
	first, used time.Time
	pinned      bool
}

// New returns a Collector. It starts nothing.
func New(c Config) (*Collector, error) {
	for _, d := range []struct {
		value *int
		is    int
	}{{&c.High, DefaultHigh}, {&c.Low, DefaultLow}} {
		if *d.value == 0 {
			*d.value = d.is
		}
	}
	if c.MinAge == 0 {
		c.MinAge = DefaultMinAge
	}
	if c.Interval == 0 {
		c.Interval = DefaultInterval
	}
	switch {
	case c.Images == nil || c.InUse == nil || c.FileSystem == nil:
		return nil, errors.New("images: Images, InUse or FileSystem is missing")
	case c.High < 0 || c.High > 100:
		return nil, fmt.Errorf("images: High %d is not between 0 and 100", c.High)
	case c.Low < 0 || c.Low > 100:
		return nil, fmt.Errorf("images: Low %d is not between 0 and 100", c.Low)
	case c.Low > c.High:
		return nil, fmt.Errorf("images: Low %d is above High %d", c.Low, c.High)
	case c.MinAge < 0 || c.MaxAge < 0 || c.Interval < 0:
		return nil, errors.New("images: MinAge, MaxAge or Interval is negative")
	case c.MaxAge > 0 && c.MaxAge <= c.MinAge:
		return nil, fmt.Errorf("images: MaxAge %v is not above MinAge %v", c.MaxAge, c.MinAge)
	}
	return &Collector{config: c, seen: map[string]*record{}}, nil
}

// Run collects until ctx is done. Errors are logged and reported, and what failed is tried again.
func (c *Collector) Run(ctx context.Context) {
	tick := time.NewTicker(c.config.Interval)
	defer tick.Stop()
	for {
		if err := c.Collect(ctx); err != nil && ctx.Err() == nil {
			c.config.Log.Error(err, "image garbage collection")
			c.event("ImageGCFailed", err.Error())
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (c *Collector) event(reason, message string) {
	if c.config.Event != nil {
		c.config.Event(reason, message)
	}
}

// Collect looks once, and removes what is too old, and then as much as the thresholds demand.
func (c *Collector) Collect(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	unused, err := c.look(ctx, now)
	if err != nil {
		return err
	}
	if unused, err = c.removeOld(ctx, unused, now); err != nil {
		return err
	}
	capacity, available, err := c.config.FileSystem(ctx)
	if err != nil {
		return fmt.Errorf("image file system: %w", err)
	}
	if capacity <= 0 {
		return fmt.Errorf("invalid capacity %d on image filesystem", capacity)
	}
	used := 100 - int(min(available, capacity)*100/capacity)
	if c.config.High == 100 || used < c.config.High {
		return nil
	}
	wanted := capacity*int64(100-c.config.Low)/100 - available
	c.config.Log.Info("removing images", "used", used, "high", c.config.High, "low", c.config.Low, "bytes", wanted)
	freed, err := c.remove(ctx, c.old(unused, now), wanted)
	if err == nil && freed < wanted {
		message := fmt.Sprintf("Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", wanted, freed)
		c.event("FreeDiskSpaceFailed", message)
		return errors.New(message)
	}
	return err
}

// RemoveUnused removes all unused images that are not new, whatever the thresholds say. It returns how
// many bytes they had.
func (c *Collector) RemoveUnused(ctx context.Context) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	unused, err := c.look(ctx, now)
	if err != nil {
		return 0, err
	}
	return c.remove(ctx, c.old(unused, now), 1<<62)
}

// look updates the records, and returns those of unused images, the one that was not used for the
// longest time first.
func (c *Collector) look(ctx context.Context, now time.Time) ([]*record, error) {
	if c.began.IsZero() {
		c.began = now
	}
	// Read the containers first: an image that is pulled and used in the meantime is new.
	inUse, err := c.config.InUse(ctx)
	if err != nil {
		return nil, fmt.Errorf("images in use: %w", err)
	}
	list, err := c.config.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	keep := map[string]bool{}
	for _, name := range slices.Concat(inUse, c.config.Keep) {
		keep[name] = true
	}
	found := map[string]*record{}
	var unused []*record
	for _, image := range list.GetImages() {
		r := c.seen[image.GetId()]
		if r == nil {
			r = &record{id: image.GetId(), first: now}
		}
		r.names = slices.Concat(image.GetRepoTags(), image.GetRepoDigests())
		r.size, r.pinned = int64(image.GetSize()), image.GetPinned()
		found[r.id] = r
		if keep[r.id] || slices.ContainsFunc(r.names, func(name string) bool { return keep[name] }) {
			r.used = now
			continue
		}
		if !r.pinned {
			unused = append(unused, r)
		}
	}
	c.seen = found
	slices.SortFunc(unused, func(a, b *record) int {
		return cmp.Or(a.used.Compare(b.used), a.first.Compare(b.first), cmp.Compare(a.id, b.id))
	})
	return unused, nil
}

// old returns the images that are not new.
func (c *Collector) old(list []*record, now time.Time) []*record {
	return slices.DeleteFunc(slices.Clone(list), func(r *record) bool { return now.Sub(r.first) < c.config.MinAge })
}

// removeOld removes the images that were not used for MaxAge, and returns the rest. What was used
// before the collector began is not known: that counts as used then.
func (c *Collector) removeOld(ctx context.Context, list []*record, now time.Time) ([]*record, error) {
	if c.config.MaxAge == 0 {
		return list, nil
	}
	var expired, rest []*record
	for _, r := range list {
		last := r.used
		if last.IsZero() {
			last = r.first
		}
		if now.Sub(last) > c.config.MaxAge {
			expired = append(expired, r)
		} else {
			rest = append(rest, r)
		}
	}
	_, err := c.remove(ctx, expired, 1<<62)
	return rest, err
}

// remove removes images until it has freed bytes. It returns how many it has. An image that cannot be
// removed does not keep others.
func (c *Collector) remove(ctx context.Context, list []*record, bytes int64) (int64, error) {
	var freed int64
	var errs []error
	for _, r := range list {
		if freed >= bytes || ctx.Err() != nil {
			break
		}
		c.config.Log.Info("removing image", "id", r.id, "names", r.names, "size", r.size)
		if _, err := c.config.Images.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: r.id}}); err != nil {
			errs = append(errs, fmt.Errorf("remove image %s: %w", r.id, err))
			continue
		}
		delete(c.seen, r.id)
		freed += r.size
	}
	return freed, errors.Join(errs...)
}
