package schedule

import (
	"bytes"
	"crypto/sha256"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods of one class are alike for a decision: they have the same namespace, labels, annotations, owner
// references and spec, but for names that the API server generates. Most pods of a Deployment are of one
// class. What the predicates and priorities below say of a node is kept for further pods of the class, until
// the node or a pod on it changes. All others are asked for each pod and node.

// A ClassPredicate is a [Predicate] whose verdict about a node is the same for all pods of one class, as
// long as the NodeInfo stays as it is or, if it is a [Preparer], as long as the cluster does. ForClass reports
// whether that is so for a pod: a predicate that depends on something else for some pods, such as on claims,
// returns false for them.
//
// If only such predicates refuse pods of one class, one of the pods is tried first when an event may help, and
// the others only if it gets a node.
type ClassPredicate interface {
	Predicate
	ForClass(*PodInfo) bool
}

// A ClassPriority is a [Priority] whose score of a node is the same for all pods of one class, as long as the
// NodeInfo, the number of nodes, and the numbers of nodes with an image stay as they are. ScoreClass returns
// the score of a node, or nil if no node is better than another; Score is not called then. Of the Cluster it
// may use only Size and NodesWithImage. If the priority is also a [Normalizer], scores that are all the same
// must stay so.
type ClassPriority interface {
	Priority
	ScoreClass(*PodInfo, Cluster) func(*NodeInfo) int64
}

// maxClasses bounds the classes that a profile keeps. When there are more, the one that was not asked for the
// longest is dropped, and made again when it is needed.
const maxClasses = 64

// classKey is a hash of what pods of one class have in common.
type classKey [sha256.Size]byte

// tokenVolume begins the names of the volumes that admission adds for the token of the service account.
// What follows is random, in each pod.
const tokenVolume = "kube-api-access-"

// newClassKey returns the key of a pod's class; ok is false if the pod cannot be encoded.
func newClassKey(pod *corev1.Pod) (key classKey, ok bool) {
	meta := metav1.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences}
	spec, err := pod.Spec.Marshal()
	if err != nil {
		return key, false
	}
	for i := range pod.Spec.Volumes {
		if name := pod.Spec.Volumes[i].Name; strings.HasPrefix(name, tokenVolume) {
			spec = bytes.ReplaceAll(spec, []byte(name), []byte(tokenVolume))
		}
	}
	// The sizes that the node has granted count while a pod is resized.
	status := corev1.PodStatus{Conditions: resizeConditions(pod), ContainerStatuses: pod.Status.ContainerStatuses,
		InitContainerStatuses: pod.Status.InitContainerStatuses, Resources: pod.Status.Resources, AllocatedResources: pod.Status.AllocatedResources}
	h := sha256.New()
	for _, part := range []interface{ Marshal() ([]byte, error) }{&meta, &status} {
		data, err := part.Marshal()
		if err != nil {
			return key, false
		}
		h.Write(data)
		h.Write([]byte{0})
	}
	h.Write(spec)
	return classKey(h.Sum(nil)), true
}

func resizeConditions(pod *corev1.Pod) []corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodResizePending {
			return pod.Status.Conditions[i : i+1]
		}
	}
	return nil
}

// class keeps verdicts and scores for the pods of one class, a row for each node of State.order.
type class struct {
	used   uint64 // when it was last asked for, in decisions
	layout uint64 // State.layout when the rows were made
	seen   uint64 // the changes of nodes that the rows contain

	checks []filter
	// asTheyAre are the scores that need no normalisation.
	asTheyAre []scorer
	// base is the weighted sum of the scores asTheyAre, or refusedScore.
	base []int64
	// columns are the scores that need normalisation.
	columns []column
	// rows and nodes are those that are not refused, if listed.
	rows   []int32
	nodes  []*NodeInfo
	listed bool
	// refusals say why the nodes are refused; nil until that is asked for.
	refusals *refusals
	// plans say by row what a pod must preempt, given budgets; see planner.
	plans   *plans
	budgets []*policyv1.PodDisruptionBudget
}

// refusedScore is the base of a node that a check refuses.
const refusedScore = math.MinInt64

// scorer is a priority's score for the pods of a class.
type scorer struct {
	score  func(*NodeInfo) int64
	weight int64
	asked  *uint64
}

// column holds the scores of one priority before normalisation, by row.
type column struct {
	scorer
	normalize func([]int64)
	scores    []int64
	// alike says that all scores are that of the first node that was scored.
	alike, begun bool
	first        int64
}

// class returns what is known for the pods of p's class, brought up to date.
func (s *State) class(p *PodInfo) *class {
	key, ok := p.classKey()
	s.decisions++
	c := s.classes[key]
	if c == nil || !ok {
		if c = s.oldestClass(); c == nil {
			c = &class{}
		}
		c.layout = 0
		s.classes[key] = c
	}
	c.used = s.decisions
	if c.layout != s.layout || c.seen < s.firstChange {
		s.rebuild(c, p)
	} else {
		for _, row := range s.changedRows[c.seen-s.firstChange:] {
			c.update(s.order[row])
		}
	}
	c.seen = s.firstChange + uint64(len(s.changedRows))
	if !c.listed {
		c.list(s.order)
	}
	return c
}

// oldestClass removes the class that was not asked for the longest, if there are too many, and returns it.
func (s *State) oldestClass() *class {
	if len(s.classes) < maxClasses {
		return nil
	}
	var key classKey
	var oldest *class
	for k, c := range s.classes {
		if oldest == nil || c.used < oldest.used {
			key, oldest = k, c
		}
	}
	delete(s.classes, key)
	return oldest
}

// rebuild makes all rows of a class of which p is a pod.
func (s *State) rebuild(c *class, p *PodInfo) {
	c.layout = s.layout
	c.checks, c.asTheyAre, c.columns, c.plans = c.checks[:0], c.asTheyAre[:0], c.columns[:0], nil
	c.refusals = nil
	profile := s.profileOf(p)
	for i, predicate := range profile.Predicates {
		if forClass(predicate, p) {
			if check := compile(predicate, p); check != nil {
				c.checks = append(c.checks, filter{check, i, &profile.asked.filtered[i]})
			}
		}
	}
	for i, w := range profile.Priorities {
		priority, ok := w.Priority.(ClassPriority)
		if !ok {
			continue
		}
		profile.asked.surveyed[i]++
		score := priority.ScoreClass(p, view{s})
		if score == nil {
			continue
		}
		one := scorer{score, max(1, w.Weight), &profile.asked.scored[i]}
		if n, ok := priority.(Normalizer); ok {
			c.columns = append(c.columns, column{scorer: one, normalize: n.Normalize, scores: make([]int64, len(s.order)), alike: true})
		} else {
			c.asTheyAre = append(c.asTheyAre, one)
		}
	}
	c.base = slices.Grow(c.base[:0], len(s.order))[:len(s.order)]
	for _, n := range s.order {
		c.update(n)
	}
	c.listed = false
}

func forClass(predicate Predicate, p *PodInfo) bool {
	c, ok := predicate.(ClassPredicate)
	return ok && c.ForClass(p)
}

// update makes the row of a node again.
func (c *class) update(n *NodeInfo) {
	before := c.base[n.position]
	if c.plans != nil {
		c.plans.forget(n.position)
	}
	v, predicate := firstRefusal(c.checks, n)
	if c.base[n.position] = refusedScore; v.OK() {
		c.base[n.position] = c.score(n)
	}
	if c.refusals != nil {
		c.refusals.set(n.position, refusal{v, predicate})
	}
	if (before == refusedScore) != (c.base[n.position] == refusedScore) {
		c.listed = false
	}
}

// score returns the base of a node, and scores it in the columns.
func (c *class) score(n *NodeInfo) int64 {
	var sum int64
	for i := range c.asTheyAre {
		*c.asTheyAre[i].asked++
		sum += c.asTheyAre[i].weight * min(max(c.asTheyAre[i].score(n), 0), MaxScore)
	}
	for i := range c.columns {
		column := &c.columns[i]
		*column.asked++
		score := column.score(n)
		if column.scores[n.position] = score; !column.begun {
			column.first, column.begun = score, true
		} else if score != column.first {
			column.alike = false
		}
	}
	return sum
}

// list sets the rows and nodes that are not refused.
func (c *class) list(order []*NodeInfo) {
	c.rows, c.nodes, c.listed = c.rows[:0], c.nodes[:0], true
	for row, n := range order {
		if c.base[row] != refusedScore {
			c.rows, c.nodes = append(c.rows, int32(row)), append(c.nodes, n)
		}
	}
}

// touch notes that a node or a pod on it has changed.
func (s *State) touch(n *NodeInfo) {
	if s.trying || n.Node == nil {
		return
	}
	if len(s.changedRows) > 1024+2*len(s.order) {
		// Classes that have not seen these are made again, which then is not much more work.
		s.firstChange += uint64(len(s.changedRows))
		s.changedRows = s.changedRows[:0]
	}
	s.changedRows = append(s.changedRows, int32(n.position))
}

// relayout notes that rows have moved, or that a label of a node has changed.
func (s *State) relayout() {
	s.dropTopologies()
	s.rescore()
}

// rescore notes that what the scores of all nodes depend on has changed.
func (s *State) rescore() {
	s.layout++
	s.firstChange += uint64(len(s.changedRows))
	s.changedRows = s.changedRows[:0]
}
