package staticpods

import "github.com/go-logr/logr"

// problems logs each error when it appears or changes, and not at every read.
type problems struct {
	log logr.Logger
	// known and found hold texts by place: those of the last read and of this one.
	known, found map[string]string
}

// begin starts a read.
func (p *problems) begin() { p.found = map[string]string{} }

// add records an error of a place, and logs it unless the last read had the same.
func (p *problems) add(place string, err error) {
	text := err.Error()
	p.found[place] = text
	if p.known[place] != text {
		p.log.Error(err, "static pods")
	}
}

// end finishes a read. Errors that it did not have are forgotten.
func (p *problems) end() { p.known = p.found }
