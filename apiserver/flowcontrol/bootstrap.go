package flowcontrol

// Default returns the configuration that Kubernetes v1.36 starts with: the mandatory
// and the suggested objects.
func Default(seats int) Config {
	c := Mandatory(seats)
	c.Levels = append(c.Levels, suggestedLevels()...)
	c.Schemas = append(c.Schemas, suggestedSchemas()...)
	return c
}

// Mandatory returns the smallest valid configuration: the objects that Kubernetes
// v1.36 requires.
func Mandatory(seats int) Config {
	return Config{
		Seats: seats,
		Levels: []Level{
			{Name: ExemptName, Exempt: true},
			{Name: CatchAllName, Shares: 5},
		},
		Schemas: []Schema{
			{Name: ExemptName, Precedence: 1, Level: ExemptName, Rules: []Rule{everything(Rule{Groups: []string{"system:masters"}})}},
			{Name: CatchAllName, Precedence: 10000, Level: CatchAllName, Distinguisher: ByUser, Rules: []Rule{everything(Rule{Groups: everybody()})}},
		},
	}
}

// InFlight returns a configuration without queues that bounds the requests that only read
// and all others, as kube-apiserver does without API Priority and Fairness. Zero means no
// bound.
func InFlight(reading, changing int) Config {
	const unbounded = 1 << 24
	read := everything(Rule{Groups: []string{All}})
	read.Resources[0].Verbs = []string{"get", "list", "watch"}
	read.Paths[0].Verbs = []string{"get", "head"}
	if reading == 0 {
		reading = unbounded
	}
	if changing == 0 {
		changing = unbounded
	}
	c := Mandatory(reading + changing)
	c.Levels[1].Shares = changing
	c.Levels = append(c.Levels, Level{Name: "reading", Shares: reading})
	c.Schemas = append(c.Schemas, Schema{Name: "reading", Precedence: 2, Level: "reading", Rules: []Rule{read}})
	for i := range c.Levels[1:] {
		c.Levels[1+i].BorrowingLimitPercent = new(int)
	}
	return c
}

func suggestedLevels() []Level {
	return []Level{
		{Name: "system", Shares: 30, LendablePercent: 33, Queues: 64, HandSize: 6, QueueLength: 50},
		{Name: "node-high", Shares: 40, LendablePercent: 25, Queues: 64, HandSize: 6, QueueLength: 50},
		{Name: "leader-election", Shares: 10, LendablePercent: 0, Queues: 16, HandSize: 4, QueueLength: 50},
		{Name: "workload-high", Shares: 40, LendablePercent: 50, Queues: 128, HandSize: 6, QueueLength: 50},
		{Name: "workload-low", Shares: 100, LendablePercent: 90, Queues: 128, HandSize: 6, QueueLength: 50},
		{Name: "global-default", Shares: 20, LendablePercent: 50, Queues: 128, HandSize: 6, QueueLength: 50},
	}
}

func suggestedSchemas() []Schema {
	const (
		manager   = "system:kube-controller-manager"
		scheduler = "system:kube-scheduler"
	)
	kubeSystem := []ServiceAccount{{"kube-system", All}}
	nodes := []string{"system:nodes"}
	return []Schema{
		{Name: "probes", Precedence: 2, Level: ExemptName, Rules: []Rule{{
			Groups: everybody(),
			Paths:  []PathRule{{[]string{"get"}, []string{"/healthz", "/readyz", "/livez"}}},
		}}},
		{Name: "system-leader-election", Precedence: 100, Level: "leader-election", Distinguisher: ByUser, Rules: []Rule{{
			Users: []string{manager, scheduler}, ServiceAccounts: kubeSystem,
			Resources: []ResourceRule{leases("get", "create", "update")},
		}}},
		{Name: "system-node-high", Precedence: 400, Level: "node-high", Distinguisher: ByUser, Rules: []Rule{{
			Groups: nodes,
			Resources: []ResourceRule{
				{Verbs: []string{All}, APIGroups: []string{""}, Resources: []string{"nodes", "nodes/status"}, Namespaces: []string{All}, ClusterScope: true},
				leases(All),
			},
		}}},
		{Name: "system-nodes", Precedence: 500, Level: "system", Distinguisher: ByUser, Rules: []Rule{everything(Rule{Groups: nodes})}},
		{Name: "kube-controller-manager", Precedence: 800, Level: "workload-high", Distinguisher: ByNamespace, Rules: []Rule{everything(Rule{Users: []string{manager}})}},
		{Name: "kube-scheduler", Precedence: 800, Level: "workload-high", Distinguisher: ByNamespace, Rules: []Rule{everything(Rule{Users: []string{scheduler}})}},
		{Name: "kube-system-service-accounts", Precedence: 900, Level: "workload-high", Distinguisher: ByNamespace, Rules: []Rule{everything(Rule{ServiceAccounts: kubeSystem})}},
		{Name: "service-accounts", Precedence: 9000, Level: "workload-low", Distinguisher: ByUser, Rules: []Rule{everything(Rule{Groups: []string{"system:serviceaccounts"}})}},
		{Name: "global-default", Precedence: 9900, Level: "global-default", Distinguisher: ByUser, Rules: []Rule{everything(Rule{Groups: everybody()})}},
	}
}

func everybody() []string { return []string{"system:unauthenticated", "system:authenticated"} }

// everything returns the rule with all resources and paths.
func everything(r Rule) Rule {
	all := []string{All}
	r.Resources = []ResourceRule{{Verbs: all, APIGroups: all, Resources: all, Namespaces: all, ClusterScope: true}}
	r.Paths = []PathRule{{Verbs: all, Paths: all}}
	return r
}

func leases(verbs ...string) ResourceRule {
	return ResourceRule{Verbs: verbs, APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Namespaces: []string{All}}
}
