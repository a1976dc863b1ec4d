package apiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Estimates of what a request costs. objectsPerSeat and maxSeats are kube-apiserver's. An
// event is encoded once for all watches here, so a seat is charged for more watches than
// the 10 of kube-apiserver, for the same time.
const (
	objectsPerSeat = 100
	maxSeats       = 10
	watchesPerSeat = 100
	eventLinger    = 5 * time.Millisecond
)

// FlowSummary describes how flow control treated a request.
type FlowSummary struct {
	// Schema and Level are names. They are empty if flow control did not see the request.
	Schema, Level string
	// Seats is the estimated cost of the request.
	Seats int
	// Waited is the time in a queue, and Executed the time with a seat.
	Waited, Executed time.Duration
	// Rejected is set if the request was rejected.
	Rejected bool
}

// enqueue waits until flow control gives the request a seat. The seat is given back by leave, or
// at the end.
func (c *call) enqueue() error {
	if c.longRunning && c.info.Verb != "watch" {
		return nil
	}
	s, i, u := c.server, &c.info, c.user
	request := &flowcontrol.Request{
		User: u.Name, Groups: u.Groups, Verb: i.Verb, Path: i.Path,
		APIGroup: i.Group, APIVersion: i.Version, Resource: i.Resource, Subresource: i.Subresource,
		Namespace: i.Namespace, Name: i.Name,
	}
	if u.Name != user.Anonymous && !u.In(user.Authenticated) && !u.In(user.Unauthenticated) {
		request.Groups = append(slices.Clip(u.Groups), user.Authenticated)
	}
	c.estimate(request)
	ctx, cancel := context.WithTimeout(c.r.Context(), queueTimeout)
	defer cancel()
	began := time.Now()
	ticket, err := s.flow.Enter(ctx, request)
	entered := time.Now()
	schema, level := ticket.Schema(), ticket.Level()
	flow := &c.summary.Flow
	*flow = FlowSummary{Schema: schema.Name, Level: level.Name, Seats: ticket.Seats(), Waited: entered.Sub(began), Rejected: err != nil}
	if schema.UID != "" {
		c.w.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", schema.UID)
		c.w.Header().Set("X-Kubernetes-Pf-Prioritylevel-Uid", level.UID)
	}
	if err != nil {
		err = tooManyRequests(err)
		c.summary.Terminated = apierrors.IsTooManyRequests(err)
		return err
	}
	c.w.streams = c.info.Verb == "watch"
	c.w.leave = sync.OnceFunc(func() {
		flow.Executed = time.Since(entered)
		s.flow.Leave(ticket)
	})
	return nil
}

// tooManyRequests maps a full or expired queue to 429.
func tooManyRequests(err error) error {
	if errors.Is(err, flowcontrol.ErrQueueFull) || errors.Is(err, flowcontrol.ErrNoSeat) || errors.Is(err, context.DeadlineExceeded) {
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	}
	return err
}

// estimate sets the width of a request: a list takes a seat for each hundred objects, and a
// change keeps seats while its event is sent to watches.
func (c *call) estimate(request *flowcontrol.Request) {
	k, info := c.kind, &c.info
	if k == nil || k.Answer != nil || info.Subresource != "" && info.Verb != "create" && info.Verb != "update" && info.Verb != "patch" {
		return
	}
	switch info.Verb {
	case "list", "watch":
		if info.Name == "" {
			request.Seats = k.listSeats(c.r, info)
		}
	case "create", "update", "patch", "delete":
		if seats := int(k.watchers.Load() / watchesPerSeat); seats > 0 {
			request.LingerSeats, request.Linger = min(seats, maxSeats), eventLinger
		}
	}
}

// listSeats returns how many seats a list takes, or a watch that begins with the objects
// there are.
func (k *servedKind) listSeats(r *http.Request, info *requestline.Info) int {
	var o metav1.ListOptions
	if r.URL.RawQuery != "" && requestline.ReadOptions(r.URL.Query(), &o) != nil {
		return 1 // it will be refused
	}
	if info.Verb == "watch" {
		if from, err := watchStart(&o); err != nil || !from.initial {
			return 1
		}
	}
	most := objectsPerSeat * maxSeats
	if o.Limit > 0 && o.LabelSelector == "" && o.FieldSelector == "" {
		most = int(min(o.Limit, int64(most)))
	}
	prefix := storage.Key(k.under(info.Namespace))
	state, count := k.cache.Latest(), 0
	if string(prefix) == k.root {
		count = min(state.Len(), most)
	} else {
		for range state.All(prefix, "") {
			if count++; count == most {
				break
			}
		}
	}
	return max(1, (count+objectsPerSeat-1)/objectsPerSeat)
}
