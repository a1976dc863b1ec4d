package apiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/planekit/planekit/apiserver/flowcontrol"
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

// FlowControlled tells how flow control treated a request.
type FlowControlled struct {
	// Schema and Level are names; a request that flow control did not see has none.
	Schema, Level string
	// Seats is the estimate of what the request costs.
	Seats int
	// Waited is the time in a queue and Executed that with a seat.
	Waited, Executed time.Duration
	// Rejected says that the request was not let in.
	Rejected bool
}

// takeSeat returns when the request has a seat. What it returns must be called when the
// request no longer needs it, by anybody and as often as they like.
func (s *Server) takeSeat(w *recorder, r *http.Request, info requestInfo, u *user.Info) (leave func(), err error) {
	request := &flowcontrol.Request{
		User: u.Name, Groups: u.Groups, Verb: info.Verb, Path: info.Path,
		APIGroup: info.Group, APIVersion: info.Version, Resource: info.Resource, Subresource: info.Subresource,
		Namespace: info.Namespace, Name: info.Name,
	}
	if u.Name != user.Anonymous && !u.In(user.Authenticated) && !u.In(user.Unauthenticated) {
		request.Groups = append(slices.Clip(u.Groups), user.Authenticated)
	}
	s.estimate(request, r, info)
	ctx, cancel := context.WithTimeout(r.Context(), queueTimeout)
	defer cancel()
	began := time.Now()
	ticket, err := s.flow.Enter(ctx, request)
	entered := time.Now()
	schema, level := ticket.Schema(), ticket.Level()
	w.flow = FlowControlled{Schema: schema.Name, Level: level.Name, Seats: ticket.Seats(), Waited: entered.Sub(began), Rejected: err != nil}
	if schema.UID != "" {
		w.Header().Set("X-Kubernetes-Pf-Flowschema-Uid", schema.UID)
		w.Header().Set("X-Kubernetes-Pf-Prioritylevel-Uid", level.UID)
	}
	if err != nil {
		return nil, overloaded(err)
	}
	return sync.OnceFunc(func() {
		w.flow.Executed = time.Since(entered)
		s.flow.Leave(ticket)
	}), nil
}

// overloaded returns the error for a request that flow control rejected.
func overloaded(err error) error {
	if errors.Is(err, flowcontrol.ErrQueueFull) || errors.Is(err, flowcontrol.ErrNoSeat) || errors.Is(err, context.DeadlineExceeded) {
		return apierrors.NewTooManyRequests("too many requests, please try again later", 1)
	}
	return err
}

// estimate sets the width of a request: a list takes a seat for each hundred objects, and a
// change keeps seats while its event is sent to watches.
func (s *Server) estimate(request *flowcontrol.Request, r *http.Request, info requestInfo) {
	k := s.kinds[info.gvr()]
	if k == nil || k.Answer != nil || info.Subresource != "" && info.Verb != "create" && info.Verb != "update" && info.Verb != "patch" {
		return
	}
	switch info.Verb {
	case "list", "watch":
		if info.Name == "" {
			request.Seats = k.listSeats(r, info)
		}
	case "create", "update", "patch", "delete":
		if seats := int(k.watchers.Load() / watchesPerSeat); seats > 0 {
			request.LingerSeats, request.Linger = min(seats, maxSeats), eventLinger
		}
	}
}

// listSeats returns how many seats a list takes, or a watch that begins with the objects
// there are.
func (k *kind) listSeats(r *http.Request, info requestInfo) int {
	var o metav1.ListOptions
	if r.URL.RawQuery != "" && readQuery(r.URL.Query(), &o) != nil {
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
