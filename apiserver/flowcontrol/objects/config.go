package objects

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// Config returns the configuration of the objects, for a server with the given
// number of seats. It is valid if seats is. skipped has an error for each object that
// was left out because it is not valid, which names the object and the field. Schemas
// whose level is not among the valid levels are left out silently. The slices of the
// configuration's rules are shared with the objects.
func Config(levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema, seats int) (config flowcontrol.Config, skipped []error) {
	config, _, skipped = read(levels, schemas, seats)
	return config, skipped
}

// read is Config. It also returns the names of the valid levels among the objects.
func read(levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema, seats int) (config flowcontrol.Config, known map[string]bool, skipped []error) {
	config.Seats = seats
	known = map[string]bool{}
	for _, object := range levels {
		level, err := levelOf(object)
		if err == nil && known[object.Name] {
			err = errors.New("metadata.name: not unique")
		}
		if err != nil {
			skipped = append(skipped, fmt.Errorf("prioritylevelconfigurations/%s: %w", object.Name, err))
			continue
		}
		known[object.Name] = true
		config.Levels = append(config.Levels, level)
	}
	used := map[string]bool{}
	for _, object := range schemas {
		schema, err := schemaOf(object)
		if err == nil && used[object.Name] {
			err = errors.New("metadata.name: not unique")
		}
		if err != nil {
			skipped = append(skipped, fmt.Errorf("flowschemas/%s: %w", object.Name, err))
			continue
		}
		if known[schema.Level] {
			used[object.Name] = true
			config.Schemas = append(config.Schemas, schema)
		}
	}
	for _, level := range flowcontrol.Mandatory(seats).Levels {
		if !known[level.Name] {
			config.Levels = append(config.Levels, level)
		}
	}
	for _, schema := range flowcontrol.Mandatory(seats).Schemas {
		if !used[schema.Name] {
			config.Schemas = append(config.Schemas, schema)
		}
	}
	// The order makes equal objects equal configurations.
	slices.SortFunc(config.Levels, func(a, b flowcontrol.Level) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(config.Schemas, func(a, b flowcontrol.Schema) int { return cmp.Compare(a.Name, b.Name) })
	return config, known, skipped
}
