package extender

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"strings"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DefaultMaxQuestion is the default of Handler.MaxQuestion: room for the objects of several thousand
// nodes.
const DefaultMaxQuestion = 64 << 20

// Handler answers a scheduler's questions. The last element of the path is the verb: filter, prioritize,
// preempt or bind. What is nil is answered with 404. The functions are called by several goroutines at once.
//
// It has no authentication: listen on a loopback address, or wrap it.
type Handler struct {
	// Filter says whether a node accepts a pod. A verdict that is Lasting holds whatever other pods are on
	// the node. For an extender that is NodeCacheCapable, the node has only a name.
	Filter func(pod *corev1.Pod, node *corev1.Node) schedule.Verdict
	// Prioritize returns the score of a node, from 0 to MaxScore.
	Prioritize func(pod *corev1.Pod, node *corev1.Node) int64
	// Preempt returns the victims on the nodes where pods should end.
	Preempt func(ctx context.Context, args *PreemptionArgs) (map[string]*MetaVictims, error)
	// Bind creates the binding. Its error goes to the scheduler.
	Bind func(ctx context.Context, args *BindingArgs) error
	// MaxQuestion is the maximum size of a question, in bytes; zero means DefaultMaxQuestion.
	MaxQuestion int64
}

// ServeHTTP implements http.Handler.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch verb := path.Base(r.URL.Path); {
	case verb == "filter" && h.Filter != nil:
		serve(h, w, r, h.filter)
	case verb == "prioritize" && h.Prioritize != nil:
		serve(h, w, r, h.prioritize)
	case verb == "preempt" && h.Preempt != nil:
		serve(h, w, r, h.preempt)
	case verb == "bind" && h.Bind != nil:
		serve(h, w, r, h.bind)
	default:
		http.NotFound(w, r)
	}
}

// serve decodes a question and encodes its answer.
func serve[Q, A any](h Handler, w http.ResponseWriter, r *http.Request, answer func(context.Context, *Q) (A, error)) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "questions are sent with POST", http.StatusMethodNotAllowed)
		return
	}
	limit := h.MaxQuestion
	if limit <= 0 {
		limit = DefaultMaxQuestion
	}
	question := new(Q)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, limit)).Decode(question); err != nil {
		code := http.StatusBadRequest
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			code = http.StatusRequestEntityTooLarge
		}
		http.Error(w, "decode the question: "+err.Error(), code)
		return
	}
	a, err := answer(r.Context(), question)
	if err != nil {
		code := http.StatusInternalServerError
		if errors.Is(err, errNoPod) || errors.Is(err, errNoNodes) {
			code = http.StatusBadRequest
		}
		http.Error(w, err.Error(), code)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the scheduler is gone, which the server notices
}

var (
	errNoPod   = errors.New("the question has no pod")
	errNoNodes = errors.New("the question has no nodes")
)

// nodes returns the nodes of a question.
func (a *Args) nodes() ([]*corev1.Node, error) {
	switch {
	case a.Pod == nil:
		return nil, errNoPod
	case a.Nodes == nil && a.NodeNames == nil:
		return nil, errNoNodes
	}
	var list []*corev1.Node
	if a.NodeNames != nil {
		for _, name := range *a.NodeNames {
			list = append(list, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return list, nil
	}
	for i := range a.Nodes.Items {
		list = append(list, &a.Nodes.Items[i])
	}
	return list, nil
}

func (h Handler) filter(_ context.Context, args *Args) (*FilterResult, error) {
	nodes, err := args.nodes()
	if err != nil {
		return nil, err
	}
	accepted := []*corev1.Node{}
	result := &FilterResult{FailedNodes: FailedNodes{}, FailedAndUnresolvableNodes: FailedNodes{}}
	for _, n := range nodes {
		switch v := h.Filter(args.Pod, n); {
		case v.OK():
			accepted = append(accepted, n)
		case v.Lasting || v.All:
			result.FailedAndUnresolvableNodes[n.Name] = strings.Join(v.Reasons, ", ")
		default:
			result.FailedNodes[n.Name] = strings.Join(v.Reasons, ", ")
		}
	}
	if args.NodeNames != nil {
		names := []string{}
		for _, n := range accepted {
			names = append(names, n.Name)
		}
		result.NodeNames = &names
		return result, nil
	}
	result.Nodes = &corev1.NodeList{}
	for _, n := range accepted {
		result.Nodes.Items = append(result.Nodes.Items, *n)
	}
	return result, nil
}

func (h Handler) prioritize(_ context.Context, args *Args) (HostPriorityList, error) {
	nodes, err := args.nodes()
	if err != nil {
		return nil, err
	}
	list := HostPriorityList{}
	for _, n := range nodes {
		list = append(list, HostPriority{Host: n.Name, Score: h.Prioritize(args.Pod, n)})
	}
	return list, nil
}

func (h Handler) preempt(ctx context.Context, args *PreemptionArgs) (*PreemptionResult, error) {
	if args.Pod == nil {
		return nil, errNoPod
	}
	victims, err := h.Preempt(ctx, args)
	if err != nil {
		return nil, err
	}
	return &PreemptionResult{NodeNameToMetaVictims: victims}, nil
}

func (h Handler) bind(ctx context.Context, args *BindingArgs) (*BindingResult, error) {
	if err := h.Bind(ctx, args); err != nil {
		return &BindingResult{Error: err.Error()}, nil
	}
	return &BindingResult{}, nil
}
