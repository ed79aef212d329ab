package fabric

import (
	"cmp"
	"context"

	"ttfabric/node/fabric/folder"
	"ttfabric/node/fabric/spec"
	"ttfabric/router/topo"
	"ttfabric/wire"
)

// DryRunOf checks all options of a new fabric, as [Create] does, and says what [Fabric.Up] would start. DryRunOf makes no
// file and no folder. If the user named an archive, DryRunOf does not check whether its folder can be made.
func DryRunOf(ctx context.Context, w Wanted) (spec.DryRun, error) {
	w.Spec.Archive = ""
	s, _, err := w.settle(ctx)
	if err != nil {
		return spec.DryRun{}, err
	}
	dir, err := folder.For(w.Name)
	if err != nil {
		return spec.DryRun{}, err
	}
	d, err := dryRun(dir, &s, w.Topology, func(wire.FabricNodeID) bool { return false })
	if s.Runtime == spec.Docker {
		d.Image = w.Container.Image
	}
	return d, err
}

// DryRun says which missing chips [Fabric.Up] would start.
func (f *Fabric) DryRun() (spec.DryRun, error) {
	return dryRun(f.Dir, &f.Spec, f.Topology, func(n wire.FabricNodeID) bool {
		_, runs := f.Where(n)
		return runs
	})
}

func dryRun(dir folder.Dir, s *spec.Spec, t *topo.Topology, runs func(wire.FabricNodeID) bool) (d spec.DryRun, err error) {
	d = spec.DryRun{Name: s.Name, Topology: t.Name, Folder: string(dir), Runtime: cmp.Or(s.Runtime, spec.Process), Transport: s.Transport, Auth: s.Auth, Profile: s.Profile, Chips: []spec.DryChip{}, Remarks: append([]string{}, t.Remarks(true)...)}
	if d.Runtime == spec.Process {
		if d.Program, err = executable(s.Program); err != nil {
			return d, err
		}
	}
	for i, c := range t.Chips {
		if runs(c.Node) {
			d.Running++
			continue
		}
		one := spec.DryChip{Chip: c.Node, Row: c.Row, Col: c.Col, Ports: []int{}}
		for _, p := range t.Ports(c.Node) {
			one.Links++
			if s.PortBase != 0 {
				one.Ports = append(one.Ports, s.PortBase+i*spec.ChannelStride+int(p.Local.Channel))
			}
		}
		d.Sockets += one.Links
		d.Chips = append(d.Chips, one)
	}
	return d, nil
}
