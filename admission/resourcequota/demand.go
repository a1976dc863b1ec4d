package resourcequota

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/usage"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// demand is the usage that one request adds. It belongs to one goroutine at a time.
type demand struct {
	request *admission.Request
	kind    usage.Kind
	now     time.Time

	measured bool // the fields below are set
	new, old corev1.ResourceList
}

// of returns the usage that the request adds to q; empty if q does not apply. It fails if q cannot
// count the request, which must then be refused.
func (d *demand) of(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	if !d.kind.Touches(q.Status.Hard) {
		return nil, nil
	}
	if ok, err := d.kind.In(&q.Spec, d.request.Object); !ok || err != nil {
		return nil, err
	}
	if err := usage.Unspecified(q.Status.Hard, d.request.Object); err != nil {
		return nil, admission.Forbidden(d.request, fmt.Errorf("failed quota: %s: %w", q.Name, err))
	}
	if err := d.counted(q); err != nil {
		return nil, err
	}
	if err := d.measure(); err != nil {
		return nil, err
	}
	var before corev1.ResourceList
	if d.request.OldObject != nil {
		was, err := d.kind.In(&q.Spec, d.request.OldObject)
		if err != nil {
			return nil, err
		}
		if was {
			before = d.old
		}
	}
	return usage.Mask(usage.Beyond(d.new, before), q.Status.Hard), nil
}

// counted fails if the usage of q is not known yet.
func (d *demand) counted(q *corev1.ResourceQuota) error {
	known := true
	var names []string
	for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		if d.kind.Counts(name) {
			_, ok := q.Status.Used[name]
			known = known && ok
			names = append(names, string(name))
		}
	}
	if known {
		return nil
	}
	return admission.Forbidden(d.request, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, strings.Join(names, ",")))
}

func (d *demand) measure() (err error) {
	if d.measured {
		return nil
	}
	if d.new, err = d.kind.Of(d.request.Object, d.now); err != nil {
		return apierrors.NewInternalError(err)
	}
	if d.request.OldObject != nil {
		if d.old, err = d.kind.Of(d.request.OldObject, d.now); err != nil {
			return apierrors.NewInternalError(err)
		}
	}
	d.measured = true
	return nil
}

// fits returns nil if more can be added to used within the limits of q.
func (d *demand) fits(q *corev1.ResourceQuota, used, more corev1.ResourceList) error {
	after := corev1.ResourceList{}
	usage.Add(after, more)
	usage.Add(after, usage.Mask(used, more))
	over := usage.Beyond(after, q.Status.Hard)
	if len(over) == 0 {
		return nil
	}
	return admission.Forbidden(d.request, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
		usage.Text(usage.Mask(more, over)), usage.Text(usage.Mask(used, over)), usage.Text(usage.Mask(q.Status.Hard, over))))
}
