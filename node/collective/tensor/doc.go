// Package tensor describes tensors of chips: element types, shapes, layouts, shards in banks, meshes of chips,
// and the slices of a reduce-scatter. The package computes which bytes move, and moves no bytes between chips.
//
// # Memory of a chip
//
// A [Spec] says where each element of a tensor lies in the banks of a chip. A bank is memory of equal size, such as
// the L1 of a Tensix tile. The unit of placement is a page:
//
//   - [RowMajor]: a page is one row of the tensor, or the part of one row that lies in one shard.
//   - [Tiled]: a page is one tile of 32 x 32 elements. A tile has four faces of 16 x 16 elements, in the order top left,
//     top right, bottom left, bottom right. The rows of a face lie one after the other.
//
// The size of a page is a multiple of 16 bytes, as the EDM needs. Bytes behind the elements are zero.
//
// # Operations
//
// An [Exchange] is one operation of the CCL guide's list on one group of chips. Each chip packs its tensor into parts.
// A collective operation on plain elements then moves or reduces the parts. Each chip stores parts into its output
// tensor page by page, while they come. The output may have another layout, other shards and another number of banks
// than the input. The guide calls this in-flight resharding.
//
// A [MeshTensor] is one logical tensor on a mesh of chips. The program names a row or a column of the mesh, and no
// chips.
//
// # Slices
//
// A [Slicer] cuts a reduce-scatter into slices that the buffers between two neighbours can hold. [Pipeline.Simulate]
// shows that a larger slice stops the ring for ever.
//
// # Files
//
// [DecodeNPY] and [EncodeNPY] read and write numpy's .npy files.
//
// Sources: CCL guide, "Op List", "Sharding Support/In Flight Resharding", "Tensor Slicer Scheduling", "(Ring) Reduce
// Scatter" and "Calling Multichip Ops From Host (TTNN)". The order of a tile's faces is tt-metal's.
package tensor
