package garbage

// smallestGraph is the number of vertices for which there is always room.
const smallestGraph = 1024

// shrink copies the vertices and edges to smaller arrays when seven in eight places are free.
// Without it the memory of a burst of objects would never be released. It costs as much as some
// changes for each place that it frees.
func (g *graph) shrink() {
	if len(g.vertices) <= smallestGraph || 8*g.numbers.used > len(g.vertices) {
		return
	}
	vertices, edges := make([]vertex, 1, g.numbers.used+1), make([]edge, 1)
	moved, movedEdges := make([]int32, len(g.vertices)), make([]int32, len(g.edges))
	for _, v := range g.numbers.slots {
		if v == 0 {
			continue
		}
		moved[v] = int32(len(vertices))
		vertices = append(vertices, g.vertices[v])
		// Every edge is in the list of one dependent.
		for e := g.vertices[v].owners; e != 0; e = g.edges[e].nextOwner {
			movedEdges[e] = int32(len(edges))
			edges = append(edges, g.edges[e])
		}
	}
	for i := range vertices {
		v := &vertices[i]
		v.owners, v.dependents = movedEdges[v.owners], movedEdges[v.dependents]
	}
	for i := range edges {
		e := &edges[i]
		e.owner, e.dependent = moved[e.owner], moved[e.dependent]
		e.nextOwner, e.next, e.previous = movedEdges[e.nextOwner], movedEdges[e.next], movedEdges[e.previous]
	}
	g.vertices, g.edges, g.freeVertex, g.freeEdge = vertices, edges, 0, 0
	g.numbers = newUIDTable(g.numbers.uid)
	for v := 1; v < len(g.vertices); v++ {
		g.numbers.add(int32(v))
	}
}
