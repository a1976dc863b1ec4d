package staticpods

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
)

// page is the origin of a URL.
type page struct {
	address  *url.URL
	header   http.Header
	client   *http.Client
	builder  builder
	problems problems
	// last is the hash of the last contents, and failure why they are invalid.
	last    [sha256.Size]byte
	failure error
}

func (p *page) pods(ctx context.Context) ([]*corev1.Pod, bool) {
	p.problems.begin()
	defer p.problems.end()
	pods, changed, err := p.read(ctx)
	if err != nil && ctx.Err() == nil {
		// The query may have credentials.
		where := url.URL{Scheme: p.address.Scheme, Host: p.address.Host, Path: p.address.Path}
		p.problems.add("", fmt.Errorf("%s: %w", where.String(), err))
	}
	return append([]*corev1.Pod{}, pods...), changed
}

// errEmpty is also an error in Kubernetes, although it ends the earlier pods.
var errEmpty = errors.New("zero-length data received")

// read returns false if the earlier pods are still valid. An empty page has no pods.
func (p *page) read(ctx context.Context) ([]*corev1.Pod, bool, error) {
	data, err := p.fetch(ctx)
	if err != nil {
		return nil, false, err
	}
	if len(data) == 0 {
		p.last, p.failure = [sha256.Size]byte{}, nil
		return nil, true, errEmpty
	}
	hash := sha256.Sum256(data)
	if hash == p.last {
		return nil, false, p.failure
	}
	pods, err := p.decode(ctx, data)
	if ctx.Err() != nil {
		return nil, false, err
	}
	p.last, p.failure = hash, err
	return pods, err == nil, err
}

func (p *page) fetch(ctx context.Context) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.address.String(), nil)
	if err != nil {
		return nil, err
	}
	if p.header != nil {
		request.Header = p.header.Clone()
	}
	response, err := p.client.Do(request)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return readAtMost(response.Body)
}

// decode returns the pods of a page. If one of them is invalid, it returns none.
func (p *page) decode(ctx context.Context, data []byte) ([]*corev1.Pod, error) {
	pods, err := p.builder.decodePods(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse as single or multiple pods: %w", err)
	}
	for _, pod := range pods {
		if err := p.builder.prepare(pod, p.address.String()); err != nil {
			return nil, err
		}
	}
	return pods, nil
}
