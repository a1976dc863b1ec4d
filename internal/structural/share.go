package structural

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// Shared returns s, which it changes, with equal schemas below it as one. Large definitions repeat some schemas, such as
// that of a container, many times. It takes about as long as Compile, so it is for schemas that are kept.
func (s *Schema) Shared() *Schema {
	return (&sharing{byContent: map[string]*Schema{}, numbers: map[*Schema]int{}}).share(s)
}

// sharing finds equal schemas.
type sharing struct {
	byContent map[string]*Schema
	numbers   map[*Schema]int
	buffer    []byte
}

// share returns the schema that is used in the place of s, and shares the schemas below it.
func (sh *sharing) share(s *Schema) *Schema {
	if s == nil {
		return nil
	}
	for name, part := range s.Properties {
		s.Properties[name] = sh.share(part)
	}
	s.Additional, s.Items = sh.share(s.Additional), sh.share(s.Items)
	content, err := sh.content(s)
	if err == nil {
		if same := sh.byContent[string(content)]; same != nil {
			return same
		}
		sh.byContent[string(content)] = s
	}
	sh.numbers[s] = len(sh.numbers) + 1
	return s
}

// content returns a text that two schemas have in common if they are equal. Schemas below stand in it as numbers.
// It is valid until the next call.
func (sh *sharing) content(s *Schema) ([]byte, error) {
	text := append(sh.buffer[:0], s.Type...)
	if s.Source != plainKeywords[s.Type] {
		keywords, err := json.Marshal(s.Source)
		if err != nil {
			return nil, err
		}
		text = append(text, keywords...)
	}
	if s.settled != nil {
		settled, err := json.Marshal(s.settled)
		if err != nil {
			return nil, err
		}
		text = append(append(text, " default "...), settled...)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		text = strconv.AppendQuote(append(text, ' '), name)
		text = strconv.AppendInt(text, int64(sh.numbers[s.Properties[name]]), 10)
	}
	text = strconv.AppendInt(append(text, " additional "...), int64(sh.numbers[s.Additional]), 10)
	text = strconv.AppendInt(append(text, " items "...), int64(sh.numbers[s.Items]), 10)
	sh.buffer = text
	return text, nil
}
