package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// IPAMConfig configures an IPAM. Nodes and Writer are required.
type IPAMConfig struct {
	Nodes  localcache.Cache[*corev1.Node]
	Writer controllers.Patcher[*corev1.Node]
	// Cluster is the range of pod addresses. Zero means 10.244.0.0/16.
	Cluster netip.Prefix
	// NodeBits is the prefix length of each node's range. Zero means 24, or 64 if Cluster is IPv6.
	NodeBits int
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Metrics receives the measurements of the queue and the worker. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// IPAM assigns each node a range of pod addresses. Its only memory are the nodes: a range that no
// node has is free. Only one process may run it, because the API does not refuse a range that is
// assigned twice.
type IPAM struct {
	*reconcile.Controller[string]
	config IPAMConfig
	// given holds ranges that a node may have been assigned and that the cache does not show yet.
	// Only reconcile uses it, one call at a time.
	given map[types.UID]netip.Prefix
}

// maxNodeRanges is the maximum number of ranges of a cluster. It bounds the search for a free one.
const maxNodeRanges = 1 << 16

// NewIPAM returns a controller, or an error if config is invalid. It starts nothing.
func NewIPAM(config IPAMConfig) (*IPAM, error) {
	if err := loop.Required("node: IPAMConfig", "Nodes", config.Nodes, "Writer", config.Writer); err != nil {
		return nil, err
	}
	if config.Cluster == (netip.Prefix{}) {
		config.Cluster = netip.MustParsePrefix("10.244.0.0/16")
	}
	if config.NodeBits == 0 {
		config.NodeBits = 24
		if config.Cluster.Addr().Is6() {
			config.NodeBits = 64
		}
	}
	switch extra := config.NodeBits - config.Cluster.Bits(); {
	case !config.Cluster.IsValid():
		return nil, errors.New("node: IPAMConfig: Cluster is not valid")
	case extra < 0 || config.NodeBits > config.Cluster.Addr().BitLen():
		return nil, fmt.Errorf("node: IPAMConfig: no /%d fits in %s", config.NodeBits, config.Cluster)
	case 1<<min(extra, 30) > maxNodeRanges:
		return nil, fmt.Errorf("node: IPAMConfig: more than %d ranges of /%d in %s", maxNodeRanges, config.NodeBits, config.Cluster)
	}
	config.Cluster = config.Cluster.Masked()
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &IPAM{config: config, given: make(map[types.UID]netip.Prefix)}
	var err error
	// All nodes share one key, so that ranges are assigned one at a time.
	if c.Controller, err = loop.New(loop.Config{Name: "nodeipam", Workers: 1, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Nodes, func(old, new *corev1.Node) {
		// A deleted node frees its range for a node that has found none.
		if new == nil || new.Spec.PodCIDR == "" {
			c.Enqueue(allNodes)
		}
	})
	return c, nil
}

const allNodes = "all nodes"

func (c *IPAM) reconcile(ctx context.Context, _ string) (reconcile.Result, error) {
	nodes := slices.SortedFunc(c.config.Nodes.All(), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	c.forget(nodes)
	plan, full := planRanges(c.config.Cluster, c.config.NodeBits, nodes, c.given)
	var failures []error
	for _, p := range plan {
		// Keep the range until the cache has the node with a range or without the node,
		// even if the patch fails, because only its response may be lost.
		c.given[p.node.UID] = p.prefix
		if err := c.give(ctx, p.node, p.prefix); err != nil && !apierrors.IsNotFound(err) {
			if !loop.IsStale(err) {
				c.tell(p.node, "CIDRAssignmentFailed")
			}
			failures = append(failures, fmt.Errorf("give %s to node %s: %w", p.prefix, p.node.Name, err))
		}
	}
	for _, node := range full {
		c.tell(node, "CIDRNotAvailable")
	}
	return reconcile.Result{}, errors.Join(failures...)
}

func (c *IPAM) tell(node *corev1.Node, status string) {
	c.config.Events.Event(node, corev1.EventTypeNormal, status, fmt.Sprintf("Node %s status is now: %s", node.Name, status))
}

// forget removes the ranges that the cache shows.
func (c *IPAM) forget(nodes []*corev1.Node) {
	waiting := make(map[types.UID]bool)
	for _, node := range nodes {
		waiting[node.UID] = node.Spec.PodCIDR == ""
	}
	for uid := range c.given {
		if !waiting[uid] {
			delete(c.given, uid)
		}
	}
}

func (c *IPAM) give(ctx context.Context, node *corev1.Node, prefix netip.Prefix) error {
	var patch struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Spec struct {
			PodCIDR  string   `json:"podCIDR"`
			PodCIDRs []string `json:"podCIDRs"`
		} `json:"spec"`
	}
	patch.Metadata.UID = node.UID
	patch.Spec.PodCIDR, patch.Spec.PodCIDRs = prefix.String(), []string{prefix.String()}
	data, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = c.config.Writer.Patch(ctx, "", node.Name, types.MergePatchType, data)
	return err
}

// nodeRange is a range for a node.
type nodeRange struct {
	node   *corev1.Node
	prefix netip.Prefix
}

// planRanges assigns the lowest free ranges to the nodes that have none and are not being deleted.
// A node in given gets the same range again. full holds the nodes for which no range is left.
func planRanges(cluster netip.Prefix, bits int, nodes []*corev1.Node, given map[types.UID]netip.Prefix) (plan []nodeRange, full []*corev1.Node) {
	used := make([]bool, 1<<(bits-cluster.Bits()))
	for _, node := range nodes {
		for _, cidr := range append(slices.Clone(node.Spec.PodCIDRs), node.Spec.PodCIDR) {
			if prefix, err := netip.ParsePrefix(cidr); err == nil {
				mark(used, cluster, bits, prefix)
			}
		}
		if prefix, ok := given[node.UID]; ok {
			mark(used, cluster, bits, prefix)
		}
	}
	next := 0
	for _, node := range nodes {
		if node.Spec.PodCIDR != "" || node.DeletionTimestamp != nil {
			continue
		}
		if prefix, ok := given[node.UID]; ok {
			plan = append(plan, nodeRange{node, prefix})
			continue
		}
		for next < len(used) && used[next] {
			next++
		}
		if next == len(used) {
			full = append(full, node)
			continue
		}
		used[next] = true
		plan = append(plan, nodeRange{node, subnet(cluster, bits, next)})
	}
	return plan, full
}

// mark marks every range that prefix overlaps, whatever its length.
func mark(used []bool, cluster netip.Prefix, bits int, prefix netip.Prefix) {
	if !prefix.Overlaps(cluster) {
		return
	}
	first, count := 0, len(used)
	if prefix.Bits() > cluster.Bits() {
		first = number(cluster, bits, prefix.Addr())
		count = 1 << max(0, bits-prefix.Bits())
	}
	for i := first; i < min(first+count, len(used)); i++ {
		used[i] = true
	}
}

// subnet returns the range with the given number in cluster.
func subnet(cluster netip.Prefix, bits, number int) netip.Prefix {
	bytes := cluster.Addr().AsSlice()
	for bit := bits - 1; number > 0; bit-- {
		bytes[bit/8] |= byte(number&1) << (7 - bit%8)
		number >>= 1
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(addr, bits)
}

// number returns the number of the range in cluster that contains addr.
func number(cluster netip.Prefix, bits int, addr netip.Addr) (n int) {
	bytes := addr.AsSlice()
	for bit := cluster.Bits(); bit < bits; bit++ {
		n = n<<1 | int(bytes[bit/8]>>(7-bit%8)&1)
	}
	return n
}
