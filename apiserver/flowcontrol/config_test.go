package flowcontrol

import (
	"strings"
	"testing"
)

func TestDefaultIsThatOfKubernetes(t *testing.T) {
	config := Default(600)
	if err := config.Validate(); err != nil {
		t.Fatal(err)
	}
	// Nominal, minimum and maximum limits of kube-apiserver with its default 600 seats.
	limits := map[string]Limits{
		"exempt": {0, 0, 600}, "catch-all": {13, 13, 613},
		"system": {74, 50, 674}, "node-high": {98, 73, 698}, "leader-election": {25, 25, 625},
		"workload-high": {98, 49, 698}, "workload-low": {245, 24, 845}, "global-default": {49, 24, 649},
	}
	if len(config.Levels) != len(limits) {
		t.Errorf("%d levels, want %d", len(config.Levels), len(limits))
	}
	for i, got := range config.Limits() {
		if want := limits[config.Levels[i].Name]; got != want {
			t.Errorf("%s has limits %+v, want %+v", config.Levels[i].Name, got, want)
		}
	}
	var order []string
	for _, s := range newClassifier(config.Schemas).schemas {
		order = append(order, s.Name)
	}
	want := "exempt probes system-leader-election system-node-high system-nodes kube-controller-manager kube-scheduler " +
		"kube-system-service-accounts service-accounts global-default catch-all"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("schemas are tried in the order\n%s, want\n%s", got, want)
	}
	// The estimator of Kubernetes allows ten seats at most, which the smaller levels cut.
	for name, want := range map[string]int{"system": 12, "leader-election": 4, "workload-low": 37, "global-default": 8, "catch-all": 0} {
		for i := range config.Levels {
			if l := &config.Levels[i]; l.Name == name {
				if got := l.maxSeats(limits[name].Nominal); got != want {
					t.Errorf("a request of %s may take %d seats, want %d", name, got, want)
				}
			}
		}
	}
}

func TestValidateNamesTheField(t *testing.T) {
	level := func(change func(*Level)) func(*Config) {
		return func(c *Config) {
			l := Level{Name: "x", Shares: 1, Queues: 8, HandSize: 2, QueueLength: 5}
			change(&l)
			c.Levels = append(c.Levels, l)
		}
	}
	schema := func(change func(*Schema)) func(*Config) {
		return func(c *Config) {
			s := Schema{Name: "x", Precedence: 5, Level: CatchAllName, Rules: []Rule{everything(Rule{Users: []string{"jane"}})}}
			change(&s)
			c.Schemas = append(c.Schemas, s)
		}
	}
	negative := -1
	for want, change := range map[string]func(*Config){
		"seats: 0":                                     func(c *Config) { c.Seats = 0 },
		`levels: the level "exempt"`:                   func(c *Config) { c.Levels, c.Schemas[0].Level = c.Levels[1:], CatchAllName },
		`schemas: the schema "catch-all"`:              func(c *Config) { c.Schemas = c.Schemas[:1] },
		"levels[2].name: \"\"":                         level(func(l *Level) { l.Name = "" }),
		"levels[2].name: \"exempt\"":                   level(func(l *Level) { *l = Level{Name: ExemptName, Exempt: true} }),
		"levels[2].exempt:":                            level(func(l *Level) { *l = Level{Name: "x", Exempt: true} }),
		"levels[2].shares: -1":                         level(func(l *Level) { l.Shares = -1 }),
		"levels[2].lendablePercent: 101":               level(func(l *Level) { l.LendablePercent = 101 }),
		"levels[2].borrowingLimitPercent: -1":          level(func(l *Level) { l.BorrowingLimitPercent = &negative }),
		"levels[2].queues: -1":                         level(func(l *Level) { l.Queues = -1 }),
		"levels[2].queues: 10000001":                   level(func(l *Level) { l.Queues = 10_000_001 }),
		"levels[2].queues: 0 with":                     level(func(l *Level) { l.Queues = 0 }),
		"levels[0].queues: an exempt":                  func(c *Config) { c.Levels[0].Queues = 1 },
		"levels[2].queueLength: 0":                     level(func(l *Level) { l.QueueLength = 0 }),
		"levels[2].handSize: 0":                        level(func(l *Level) { l.HandSize = 0 }),
		"levels[2].handSize: 9 is":                     level(func(l *Level) { l.HandSize = 9 }),
		"levels[2].handSize: a hand of 10 from 128":    level(func(l *Level) { l.Queues, l.HandSize = 128, 10 }),
		"schemas[2].name: \"\"":                        schema(func(s *Schema) { s.Name = "" }),
		"schemas[2].level: there is no level \"y\"":    schema(func(s *Schema) { s.Level = "y" }),
		"schemas[2].precedence: 0":                     schema(func(s *Schema) { s.Precedence = 0 }),
		"schemas[2].precedence: 10001":                 schema(func(s *Schema) { s.Precedence = 10001 }),
		"schemas[2].precedence: only":                  schema(func(s *Schema) { s.Precedence = 1 }),
		"schemas[2].distinguisher: 3":                  schema(func(s *Schema) { s.Distinguisher = 3 }),
		"schemas[2].rules[0]: at least one user":       schema(func(s *Schema) { s.Rules[0].Users = nil }),
		"schemas[2].rules[0]: the name":                schema(func(s *Schema) { s.Rules[0].Users = []string{""} }),
		"schemas[2].rules[0]: at least one resource":   schema(func(s *Schema) { s.Rules[0] = Rule{Users: []string{"a"}} }),
		"schemas[2].rules[0].serviceAccounts[0]:":      schema(func(s *Schema) { s.Rules[0].ServiceAccounts = []ServiceAccount{{"", "a"}} }),
		"schemas[2].rules[0].resources[0].verbs:":      schema(func(s *Schema) { s.Rules[0].Resources[0].Verbs = nil }),
		"schemas[2].rules[0].resources[0].apiGroups:":  schema(func(s *Schema) { s.Rules[0].Resources[0].APIGroups = []string{"a", All} }),
		"schemas[2].rules[0].resources[0].resources:":  schema(func(s *Schema) { s.Rules[0].Resources[0].Resources = nil }),
		"schemas[2].rules[0].resources[0].namespaces:": schema(func(s *Schema) { s.Rules[0].Resources[0] = leases("get"); s.Rules[0].Resources[0].Namespaces = nil }),
		"schemas[2].rules[0].paths[0].verbs:":          schema(func(s *Schema) { s.Rules[0].Paths[0].Verbs = nil }),
		"schemas[2].rules[0].paths[0].paths:":          schema(func(s *Schema) { s.Rules[0].Paths[0].Paths = nil }),
	} {
		config := Mandatory(10)
		change(&config)
		err := config.Validate()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one error with %q", err, want)
		}
		if _, newErr := New(config, 0); newErr == nil {
			t.Errorf("New accepts what Validate refuses: %v", err)
		}
	}
}
