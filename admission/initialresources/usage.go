package initialresources

import (
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Query selects the usage of a resource by the containers of an image.
type Query struct {
	// Resource is cpu or memory.
	Resource corev1.ResourceName
	// Percentile is 1 to 100.
	Percentile int
	// Image is the image as named in pods. With AnyTag it is the name alone, as returned by
	// [Repository], and stands for all its tags and digests.
	Image  string
	AnyTag bool
	// Namespace restricts the query; empty means all namespaces.
	Namespace string
	// Start and End are the period, both inclusive.
	Start, End time.Time
}

// UsageSource reports the past usage of containers. It must be safe for concurrent use.
type UsageSource interface {
	// Usage returns the requested percentile, in thousandths of a CPU or in bytes, and the number
	// of samples. Without samples, usage is undefined.
	Usage(ctx context.Context, q Query) (usage, samples int64, err error)
}

// UsageFunc adapts a function to a [UsageSource].
type UsageFunc func(context.Context, Query) (usage, samples int64, err error)

// Usage calls f.
func (f UsageFunc) Usage(ctx context.Context, q Query) (usage, samples int64, err error) {
	return f(ctx, q)
}

// As in Kubernetes: with this many samples, no wider query is made.
const (
	enough = 30
	week   = 7 * 24 * time.Hour
	month  = 30 * 24 * time.Hour
)

// used returns the past usage; nil if unknown.
func (p *Plugin) used(ctx context.Context, name corev1.ResourceName, image, namespace string) (*resource.Quantity, error) {
	now := time.Now()
	for _, q := range p.queries(image, namespace) {
		q.query.Resource, q.query.Percentile = name, p.config.Percentile
		q.query.Start, q.query.End = now.Add(-q.back), now
		usage, samples, err := p.config.Source.Usage(ctx, q.query)
		if err != nil {
			return nil, err
		}
		if samples >= enough || q.last && samples > 0 {
			return quantity(name, usage), nil
		}
	}
	return nil, nil
}

// attempt is a query and how far it looks back.
type attempt struct {
	query Query
	back  time.Duration
	last  bool
}

// queries returns the attempts, the most specific first.
func (p *Plugin) queries(image, namespace string) []attempt {
	here, anywhere := Query{Image: image, Namespace: namespace}, Query{Image: image}
	others := Query{Image: Repository(image), AnyTag: true}
	if p.config.NamespaceOnly {
		others.Namespace = namespace
		return []attempt{{query: here, back: week}, {query: here, back: month}, {query: others, back: month, last: true}}
	}
	return []attempt{
		{query: here, back: week}, {query: here, back: month},
		{query: anywhere, back: week}, {query: anywhere, back: month},
		{query: others, back: month, last: true},
	}
}

// Repository returns the name of an image without tag and digest. The port of a registry remains.
func Repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		return image[:colon]
	}
	return image
}
